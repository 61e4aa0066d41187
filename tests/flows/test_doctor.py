"""Tests that `hindcast doctor` finds what is wrong, names the remedy and leaves nothing behind."""

import json
import sys
from types import SimpleNamespace

import pytest

from hindcast.flows import diagnosis
from hindcast.flows.cli import main
from hindcast.pipeline.errors import InputError

LEASES = "prefect.server.concurrency.lease_storage"


@pytest.fixture
def diagnose(monkeypatch, tmp_path):
    """Return the findings of some checks by name, without those that load torch and Prefect."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))

    def found(*checks, folders=()):
        kept = {name: diagnosis.CHECKS[name] for name in checks}
        monkeypatch.setattr(diagnosis, "CHECKS", kept)
        return {f.check: f for f in diagnosis.diagnose([*folders] or [str(tmp_path)])}

    return found


def test_this_installation_has_no_failure(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delenv("HINDCAST_TRACES", raising=False)
    assert main(["doctor", str(tmp_path), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = [row["check"] for row in rows]
    assert len(set(names)) == len(names) >= 10
    assert all(row["fact"] for row in rows)
    assert all(bool(row["remedy"]) == (row["judgement"] != "ok") for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_shown_with_its_remedy_and_exit_code_1(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(diagnosis, "CHECKS", {})
    assert main(["doctor", str(tmp_path), str(tmp_path / "file")]) == 1
    good, bad, remedy, last = capsys.readouterr().out.splitlines()
    assert good.startswith("ok ")
    assert "writable" in good
    assert bad.startswith("failure")
    assert "is a file" in bad
    assert "remedy: choose another folder" in remedy
    assert last == "2 checks, 1 failed, 0 with a warning"


def test_a_folder_that_does_not_exist_is_judged_by_its_parent(diagnose, tmp_path):
    found = diagnose(folders=[str(tmp_path / "a" / "b")])
    assert [f.judgement for f in found.values()] == ["ok"]
    assert not (tmp_path / "a").exists()


def test_an_unknown_scheme_is_a_finding(diagnose):
    [finding] = diagnose(folders=["s4://bucket"]).values()
    assert finding.judgement == "failure"
    assert finding.remedy == "did you mean 's3'?"


def test_little_space_is_a_warning(diagnose, monkeypatch):
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    [finding] = diagnose().values()
    assert finding.judgement == "warning"
    assert "0.0 GiB free" in finding.fact


def test_traces_that_are_named_and_missing_fail(diagnose, monkeypatch, tmp_path):
    monkeypatch.setenv("HINDCAST_TRACES", str(tmp_path / "none"))
    finding = diagnose("traces")["traces"]
    assert finding.judgement == "failure"
    assert "hindcast traces" in finding.remedy


def test_a_server_that_does_not_answer_fails(diagnose, monkeypatch):
    def refuse(url):
        raise InputError(f"PREFECT_API_URL is {url}, where nobody answers; start one")

    monkeypatch.setattr("hindcast.flows.engine.check_server", refuse)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    found = diagnose("prefect")
    assert found["prefect server"].judgement == "failure"
    assert found["prefect server"].remedy == "start one"
    assert found["prefect home"].judgement == "ok"


@pytest.mark.parametrize(
    ("told", "judgement"),
    [
        ({}, None),
        ({"server": {"concurrency": {"lease_storage": f"{LEASES}.memory"}}}, "warning"),
        ({"server": {"concurrency": {"lease_storage": f"{LEASES}.filesystem"}}}, "ok"),
    ],
)
def test_places_that_a_killed_server_forgets_are_a_warning(diagnose, monkeypatch, told, judgement):
    monkeypatch.setattr("hindcast.flows.engine.check_server", lambda url: None)
    monkeypatch.setattr("hindcast.flows.engine.server_settings", lambda url: told)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    found = diagnose("prefect")
    assert found["prefect server"].judgement == "ok"
    finding = found.get("prefect leases")
    assert (finding and finding.judgement) == judgement


def test_requirements_are_compared_with_what_is_installed(diagnose, monkeypatch):
    from importlib import metadata

    required = ["numpy>=999", "nothing-of-this-name>=1", 'h5py>=9; extra == "export"', "polars>=1"]
    monkeypatch.setattr(metadata, "requires", lambda _: required)
    finding = diagnose("versions")["libraries"]
    assert finding.judgement == "failure"
    assert "expected >=999; nothing-of-this-name is missing" in finding.fact
    assert finding.remedy.startswith("pip install --upgrade 'hindcast-scheduling==")


def test_a_machine_without_a_gpu_is_well(diagnose, monkeypatch):
    cuda = SimpleNamespace(is_available=lambda: False)
    torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(cuda="13.0"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    finding = diagnose("gpu")["gpu"]
    assert (finding.judgement, "CUDA 13.0" in finding.fact) == ("ok", True)
