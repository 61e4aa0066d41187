"""The command line with closed streams, names that are not UTF-8, and too little memory."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HINDCAST = f"{shlex.quote(sys.executable)} -m hindcast.flows.cli"


def shell(
    command: str, cwd: Path = ROOT, limit_s: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of sh to its end."""
    return subprocess.run(
        ["sh", "-c", command], cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True, text=True, timeout=limit_s, check=False,
    )  # fmt: skip


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines of stderr but the one that simulators are compiled for once."""
    return [line for line in done.stderr.splitlines() if not line.startswith("compiling the ")]


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_discard_what_is_written(closed):
    """Nothing is printed where nobody listens, and the command does its work."""
    done = shell(f"{HINDCAST} list --recipes {closed}")
    assert done.returncode == 0, done.stderr
    assert not lines(done)
    assert bool(done.stdout) == (closed == "2>&-")


def test_a_file_does_not_take_the_place_of_a_closed_stream():
    """The next file that a command opens is not stdout."""
    script = (
        "from hindcast.flows.process_setup import open_streams as o; o(); "
        "print(open('/dev/null').fileno())"
    )
    done = shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} 2>&- <&-")
    assert int(done.stdout) > 2


@pytest.mark.slow
def test_a_locale_that_is_not_utf8_is_refused_for_names_that_need_it(tmp_path):
    """Rust would write another file than Python reads."""
    ascii_only = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell(f"{HINDCAST} list zürich", **ascii_only)
    assert (done.returncode, len(lines(done))) == (2, 1)
    assert "expected utf-8; set PYTHONUTF8=1" in done.stderr
    (tmp_path / "zürich").mkdir()
    assert shell(f"{HINDCAST} list", tmp_path / "zürich", **ascii_only).returncode == 2
    assert shell(f"{HINDCAST} list --recipes", **ascii_only).returncode == 0


def test_a_name_that_is_not_utf8_is_refused():
    done = shell(f"{HINDCAST} list \"$(printf 'z\\374rich')\"")
    assert (done.returncode, len(lines(done))) == (2, 1)
    assert "not valid UTF-8" in done.stderr


@pytest.mark.slow
def test_text_that_the_terminal_cannot_show_is_escaped(tmp_path):
    (tmp_path / "zürich").mkdir()
    done = shell(f"{HINDCAST} list zürich", tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "below z\\xfcrich" in done.stdout


def test_too_little_memory_is_said_before_libraries_are_loaded():
    """With less, numba and polars spin, and ignore SIGTERM."""
    done = shell(f"ulimit -v 1000000; {HINDCAST} list --recipes")
    assert (done.returncode, len(lines(done))) == (2, 1)
    assert "limited to 1,000,000 KiB, expected at least 1,572,864" in done.stderr


def test_portable_kernels_are_chosen_before_torch_is_loaded(monkeypatch):
    from hindcast.flows.process_setup import choose_kernels
    from hindcast.pipeline.errors import InputError
    from hindcast.pipeline.storage.provenance import PORTABLE, chosen_kernels, provenance

    for name in PORTABLE:
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    choose_kernels()
    assert chosen_kernels() == {}
    monkeypatch.setenv("HINDCAST_PORTABLE", "yes")
    with pytest.raises(InputError, match="HINDCAST_PORTABLE is 'yes', expected 0 or 1"):
        choose_kernels()
    monkeypatch.setenv("HINDCAST_PORTABLE", "1")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"torch is loaded already; set ATEN_CPU_CAPABILITY="):
        choose_kernels()
    monkeypatch.delitem(sys.modules, "torch")
    choose_kernels()
    assert chosen_kernels() == dict(PORTABLE)
    assert provenance()["settings"].items() >= PORTABLE.items()


@pytest.mark.nightly
def test_portable_trainings_give_the_same_weights_with_fewer_instructions(tiny_dataset, tmp_path):
    """Libraries that take their instructions from variables stand for an older processor."""
    older = {
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-AVX",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL",
        "OPENBLAS_CORETYPE": "Prescott",
    }
    train = f"{HINDCAST} train {tiny_dataset} --agent behaviour_cloning --steps 5 --direct --out"
    weights = []
    for name, variables in (("new", {}), ("old", older)):
        out = tmp_path / name
        done = shell(f"{train} {out}", limit_s=300, HINDCAST_PORTABLE="1", **variables)
        assert done.returncode == 0, done.stderr
        told = json.loads((out / "provenance.json").read_text())[0]
        assert told["settings"]["MKL_CBWR"] == "COMPATIBLE"
        assert told["torch"]["kernels"] in {"DEFAULT", "NO AVX"}
        weights.append((out / "weights.safetensors").read_bytes())
    assert weights[0] == weights[1]
