"""Commands at the same time in one folder."""

import shutil
import threading

import pytest

from hindcast.flows.commands import build, directly, verify
from hindcast.flows.progress import Lines, showing
from hindcast.pipeline.dataset.building import parts
from hindcast.pipeline.dataset.verification import verify as verification
from hindcast.pipeline.errors import VerificationFailed
from hindcast.pipeline.storage.files import LOCK
from tests.conftest import TINY


@pytest.mark.slow
def test_the_second_build_waits_and_finds_the_dataset(tmp_path, monkeypatch):
    """The first one stops in the middle until the second has said that it waits."""
    request = build.Request("binpack-synthetic-v1", str(tmp_path / "d"), TINY)
    inside, waiting, lines, results = threading.Event(), threading.Event(), [], []
    recording = parts.record_parts

    def record(*arguments):
        inside.set()
        assert waiting.wait(60)
        return recording(*arguments)

    def told(text):
        lines.append(text)
        waiting.set()

    def first():
        results.append(directly(request))

    monkeypatch.delenv("HINDCAST_WAIT", raising=False)
    monkeypatch.setattr(parts, "record_parts", record)
    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(60)
    monkeypatch.setattr(parts, "record_parts", None)  # the second one records nothing
    with showing(Lines(told)):
        results.append(directly(request))
    thread.join()
    assert results[0] == results[1]
    assert "is writing here; waiting at most 600 s" in lines[0]
    assert not list((tmp_path / "d").glob(".*"))


@pytest.mark.slow
def test_verify_starts_again_where_the_dataset_is_replaced_meanwhile(
    tiny_dataset, tmp_path, monkeypatch
):
    folder = tmp_path / "d"
    shutil.copytree(tiny_dataset, folder)
    whole, tries = verification.verify, []

    def replaced(*arguments, **settings):
        tries.append(None)
        if len(tries) == 1:
            manifest = folder / "manifest.json"
            content = manifest.read_bytes()
            manifest.write_bytes(content + b"\n")
            try:
                return whole(*arguments, **settings)
            finally:
                manifest.write_bytes(content + b"\n\n")
        shutil.copy(tiny_dataset / "manifest.json", folder)
        return whole(*arguments, **settings)

    monkeypatch.setattr(verification, "verify", replaced)
    assert verify.run(verify.Request(str(folder)))["checks"]
    assert len(tries) == 2


def test_a_failure_of_a_dataset_that_stays_is_no_reason_to_start_again(
    tiny_dataset, tmp_path, monkeypatch
):
    tries = []

    def failing(*_arguments, **_settings):
        tries.append(None)
        raise VerificationFailed("no")

    monkeypatch.setattr(verification, "verify", failing)
    with pytest.raises(VerificationFailed, match="no"):
        verify.run(verify.Request(str(tiny_dataset)))
    assert len(tries) == 1


@pytest.mark.slow
def test_a_lock_is_no_part_of_a_dataset(tiny_dataset, tmp_path, capsys):
    from hindcast.flows.cli import main

    folder = tmp_path / "d"
    shutil.copytree(tiny_dataset, folder)
    (folder / LOCK).write_text("{}")
    assert main(["verify", str(folder), "--direct"]) == 0
    assert main(["diff", str(tiny_dataset), str(folder)]) == 0
    for to in ("huggingface", "csv"):
        assert main(["export", str(folder), "--to", to, "--out", str(tmp_path / to)]) == 0
        assert not list((tmp_path / to).rglob(f"*{LOCK}"))
    capsys.readouterr()
