"""Tests of the report's JSON: it is read back with equal values, and long files are streamed."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.flows.papers.thermal_report.history import export as exported
from hindcast.flows.papers.thermal_report.history.exporting import to_history
from hindcast.flows.papers.thermal_report.history.records import read_history, write_records
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.exports import export
from hindcast.pipeline.storage.location import location


def all_blocks(dataset):
    return [b for part in range(len(dataset.manifest.parts)) for b in dataset.blocks(part)]


@pytest.mark.slow
def test_it_is_the_history_of_all_blocks(thermal, tmp_path):
    """Writing episode by episode gives the same bytes as writing all blocks at once."""
    result = export(thermal.folder, "history", tmp_path / "history")
    write_records(tmp_path / "once", [to_history(all_blocks(thermal.dataset))])
    assert (tmp_path / "history").read_bytes() == (tmp_path / "once").read_bytes()
    assert not result.notes


@pytest.mark.slow
def test_values_are_those_of_the_dataset(thermal, tmp_path):
    export(thermal.folder, "history", tmp_path / "x.json")
    history = read_history(tmp_path / "x.json")
    decisions = thermal.decisions
    np.testing.assert_array_equal(history.time, decisions["time_s"])
    np.testing.assert_array_equal(history.action, decisions["choice"])
    np.testing.assert_array_equal(history.reward, decisions["reward"])
    heat = decisions["context"].struct.field("total_heat").to_numpy()
    np.testing.assert_array_equal(history.state.total_heat.astype(np.float32), heat)
    usage = decisions["candidates"].list.eval(pl.element().struct.field("usage"))
    np.testing.assert_array_equal(
        history.state.servers[:, :, 3].astype(np.float32), np.array(usage.to_list(), np.float32)
    )


@pytest.mark.slow
def test_other_scenarios_are_no_history(images, tmp_path):
    with pytest.raises(InputError, match=r"slots cannot be written as a history file.*--to csv"):
        export(images.folder, "history", tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_store_gets_the_same_file(thermal, tmp_path):
    remote = location("memory://exports/history.json")
    export(thermal.folder, "history", remote)
    export(thermal.folder, "history", tmp_path / "x.json")
    assert remote.read_bytes() == (tmp_path / "x.json").read_bytes()


def test_an_episode_in_several_blocks_is_joined(thermal, tmp_path):
    """If a row group ends inside an episode, the next state is taken from the following group."""
    export(thermal.folder, "history", tmp_path / "whole.json")
    blocks = all_blocks(thermal.dataset)

    class Divided:
        """Dataset with every block cut into pieces of seven rows."""

        def __getattr__(self, name):
            return getattr(thermal.dataset, name)

        def blocks(self, part):
            for block in thermal.dataset.blocks(part):
                for start in range(0, len(block), 7):
                    yield piece(block, start, min(start + 7, len(block)))

    exported.export(Divided(), tmp_path / "pieces.json", None, lambda _done, _total: None)
    assert (tmp_path / "pieces.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert max(map(len, blocks)) > 7


def piece(block, start: int, stop: int):
    """Return some rows of a block as a block."""
    low, high = int(block.offsets[start]), int(block.offsets[stop])
    values = {"candidates", "feasible", "probabilities"}
    columns = {}
    for field in dataclasses.fields(block):
        array = getattr(block, field.name)
        if field.name == "offsets":
            columns[field.name] = array[start : stop + 1] - low
        elif array is not None:
            columns[field.name] = array[low:high] if field.name in values else array[start:stop]
    return type(block)(**columns)
