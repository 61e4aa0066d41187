"""Tests of `hindcast ingest history`: on a full disk, and with estimates afterwards."""

import json

import pytest

from hindcast.flows import cli
from hindcast.flows.papers.thermal_report.history.importing import ingest
from hindcast.pipeline import dataset as datasets
from hindcast.pipeline.dataset.estimated import read_estimates
from hindcast.pipeline.errors import StorageError
from hindcast.pipeline.storage import files
from tests.flows.papers.thermal_report.history.test_history import records
from tests.pipeline.storage.test_full_disk import contents, room

__all__ = ["room"]


@pytest.mark.slow
def test_an_ingestion_of_a_history_goes_on_when_there_is_space(tmp_path, room):
    files.write_json(tmp_path / "h.json", records(tmp_path))
    files.write_json(tmp_path / "other.json", records(tmp_path)[:40])
    ingest(tmp_path / "h.json", tmp_path / "a" / "out")
    for count in (1, 5, 13):
        room(count)
        with pytest.raises(StorageError, match="the disk is full"):
            ingest(tmp_path / "h.json", tmp_path / "out")
        assert not (tmp_path / "out" / "manifest.json").exists()
    room(1000)
    with pytest.raises(StorageError, match="not an empty folder"):
        ingest(tmp_path / "other.json", tmp_path / "out")
    ingest(tmp_path / "h.json", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "a" / "out")


@pytest.mark.slow
def test_an_imported_history_has_estimates_by_the_same_commands(tmp_path, capsys):
    """Its decisions are placements of tasks: every feasible server is a candidate."""
    (tmp_path / "history.json").write_text(json.dumps(records(tmp_path)))
    out = str(tmp_path / "d")
    ingest(tmp_path / "history.json", tmp_path / "d")
    command = ["ope", out, "--policy", "spread", "--split", "train", "--no-truth", "--direct"]
    assert cli.main(command) == 2
    assert "recorded elsewhere, and their propensities are not known" in capsys.readouterr().err
    assert cli.main(["behaviour", out]) == 0
    assert "log-likelihood" in capsys.readouterr().out
    opened = datasets.open(tmp_path / "d")
    assert read_estimates(opened.folder, opened.manifest)["propensity"].null_count() == 0
    assert cli.main([*command, "--propensities", "estimated", "--estimators", "snis"]) == 2
    assert "is refused: the weights leave" in capsys.readouterr().err
