"""The command line with closed streams, names that are not UTF-8, and too little memory."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HINDCAST = f"{shlex.quote(sys.executable)} -m flows.cli"


def shell(command: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of sh to its end."""
    return subprocess.run(
        ["sh", "-c", command], cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_discard_what_is_written(closed):
    """Nothing is printed where nobody listens, and the command does its work."""
    done = shell(f"{HINDCAST} list --recipes {closed}")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert bool(done.stdout) == (closed == "2>&-")


def test_a_file_does_not_take_the_place_of_a_closed_stream():
    """The next file that a command opens is not stdout."""
    script = (
        "from flows.surroundings import open_streams as o; o(); print(open('/dev/null').fileno())"
    )
    done = shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} 2>&- <&-")
    assert int(done.stdout) > 2


def test_a_locale_that_is_not_utf8_is_refused_for_names_that_need_it(tmp_path):
    """Rust would write another file than Python reads."""
    ascii_only = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell(f"{HINDCAST} list zürich", **ascii_only)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "expected utf-8; set PYTHONUTF8=1" in done.stderr
    (tmp_path / "zürich").mkdir()
    assert shell(f"{HINDCAST} list", tmp_path / "zürich", **ascii_only).returncode == 2
    assert shell(f"{HINDCAST} list --recipes", **ascii_only).returncode == 0


def test_a_name_that_is_not_utf8_is_refused():
    done = shell(f"{HINDCAST} list \"$(printf 'z\\374rich')\"")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "not valid UTF-8" in done.stderr


def test_text_that_the_terminal_cannot_show_is_escaped(tmp_path):
    (tmp_path / "zürich").mkdir()
    done = shell(f"{HINDCAST} list zürich", tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "below z\\xfcrich" in done.stdout


def test_too_little_memory_is_said_before_libraries_are_loaded():
    """With less, numba and polars spin, and ignore SIGTERM."""
    done = shell(f"ulimit -v 1000000; {HINDCAST} list --recipes")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "limited to 1,000,000 KiB, expected at least 1,572,864" in done.stderr
