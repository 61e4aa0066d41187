"""Tests of datasets in which single decisions have no closing row (version 2 of the standard)."""

import json

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.exports import export
from hindcast.pipeline.testing import check_dataset
from hindcast.policies.offline.training import train
from hindcast.policies.ope.logs import ask
from hindcast.policies.training.job import Options
from tests.pipeline.decisions.decision_cases import ROWS, long_table

SESSIONS = {**ROWS, "sessions_end": True, "columns": {**ROWS["columns"], "session": "s"}}


def converted(log, folder, monkeypatch, *, closing_rows):
    monkeypatch.setattr("hindcast.pipeline.decisions.conversion.CLOSING_ROWS", closing_rows)
    convert(log, folder, "log")
    return ds.open(folder)


@pytest.fixture
def both(tmp_path, monkeypatch):
    """The same log in both forms: half of its sessions have one decision, all have ended."""
    table = long_table(60, np.random.default_rng(6))
    number = pl.col("id").str.slice(1).cast(pl.Int64)
    session = pl.when(number % 4 < 2).then(number).otherwise(number - number % 4)
    log = read_log(table.with_columns(s=session.cast(pl.String)), SESSIONS)
    return tuple(
        converted(log, tmp_path / str(closing_rows), monkeypatch, closing_rows=closing_rows)
        for closing_rows in (False, True)
    )


@pytest.mark.slow
def test_only_sessions_have_closing_rows(both):
    without, whole = both
    episodes = without.episodes()
    assert episodes.equals(whole.episodes())
    single = episodes["steps"] == 1
    assert 0 < single.sum() < len(single)
    assert whole.manifest.counts["rows"] - without.manifest.counts["rows"] == single.sum()
    rows = pl.concat([pl.read_parquet(without.part(p)) for p in range(len(without.manifest.parts))])
    closed = rows.filter(pl.col("choice").is_null())["episode"]
    assert closed.to_list() == episodes.filter(~single)["episode"].to_list()
    for dataset, version in zip(both, (2, 1), strict=True):
        assert json.loads((dataset.folder / mf.NAME).read_text())["version"] == version
        check_dataset(dataset.folder)


@pytest.mark.slow
def test_both_forms_are_read_alike(both):
    one, other = both
    assert one.transitions().collect().equals(other.transitions().collect(), null_equal=True)
    few = [d.transitions("train").select("step", "next_candidates").collect() for d in both]
    assert few[0].equals(few[1])
    for a, b in zip(one.iter_episodes(), other.iter_episodes(), strict=True):
        np.testing.assert_equal(vars(a), vars(b))
    columns = ["return_to_go", "discounted_return", "behaviour_probabilities", "truncated",
               "time_s", "reward_terms"]  # fmt: skip
    for k in (None, 2):
        passes = [list(d.batches(16, np.random.default_rng(3), k=k, columns=columns)) for d in both]
        for a, b in zip(*passes, strict=True):
            np.testing.assert_equal(arrays(a), arrays(b))

    samples = [
        sample_decisions(d, "train", np.random.default_rng(3), Columns(2, transitions=True))
        for d in both
    ]
    np.testing.assert_equal(*map(arrays, samples))


def arrays(batch):
    return {name: value for name, value in vars(batch).items() if name != "episodes"}


@pytest.mark.slow
def test_row_groups_without_closing_rows_are_mixed_in_a_small_buffer(both, monkeypatch, tmp_path):
    """A row group has about three decisions and the buffer room for two groups: all are drawn."""
    monkeypatch.setattr("hindcast.pipeline.decisions.conversion._GROUP", 8)
    log = read_log(long_table(60, np.random.default_rng(6)), ROWS)
    dataset = converted(log, tmp_path / "d", monkeypatch, closing_rows=False)
    batches = list(dataset.batches(5, np.random.default_rng(3), buffer=1))
    met = np.concatenate([batch.episode for batch in batches])
    assert sorted(met) == list(range(dataset.episodes("train").height))
    for batch in batches:
        np.testing.assert_array_equal(batch.next_candidates, batch.candidates)
        assert not batch.next_mask.any()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["csv", pytest.param("d3rlpy", marks=pytest.mark.slow)])
def test_exports_of_both_forms_have_the_same_bytes(both, name, tmp_path):
    """Descriptions name the digest, which differs."""
    for dataset, out in zip(both, ("a", "b"), strict=True):
        export(dataset.folder, name, tmp_path / out)
    found = [p.name for p in (tmp_path / "a").iterdir() if p.suffix in (".csv", ".npy")]
    assert len(found) > 2
    for file in found:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.nightly
def test_both_forms_give_the_same_estimates_and_weights(both):
    found = []
    for dataset in both:
        asked = ask(dataset.folder, ["uniform", "lowest:x"])
        out = dataset.folder.parent / f"{dataset.folder.name}-agent"
        train(dataset.folder, "cql", out, Options(20, device="cpu"))
        weights = {p.name: p.read_bytes() for p in out.rglob("*.safetensors")}
        found.append((asked.estimates, weights))
    assert found[0][0].equals(found[1][0], null_equal=True)
    assert found[0][1]
    assert found[0][1] == found[1][1]


@pytest.mark.slow
def test_a_missing_row_is_found(both):
    """A closing row is missing where the manifest promises one."""
    folder = both[0].folder
    manifest = json.loads((folder / mf.NAME).read_text())
    del manifest["spec"]["closing_rows"]
    (folder / mf.NAME).write_text(json.dumps(manifest))
    with pytest.raises(DatasetError, match="differ from those of the parts"):
        ds.open(folder)
