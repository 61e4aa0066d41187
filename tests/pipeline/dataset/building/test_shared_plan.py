"""Parts recorded by other processes: here by this one, through the same file and functions."""

import os
from pathlib import Path

import pytest

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building import shared_plan
from hindcast.pipeline.dataset.building.append import append
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.building.shared_plan import record, share
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.storage.location import location
from hindcast.policies.registry import behaviours
from tests.conftest import TINY
from tests.pipeline.dataset.building.test_build import digest

AGAIN = (*TINY, 'behaviours=[{policy="random", episodes=2}, {policy="tetris"}]')


class Lost(Exception):
    """The process that builds has ended."""


def in_turn(plan, parts, tell):
    """Record the parts backwards, each twice, as a pool that lost a worker would."""
    named = share(plan)
    for part in reversed(parts):
        first = record(**named, part=part, behaviours=behaviours)
        assert record(**named, part=part, behaviours=behaviours) == first
        tell(1)


def interrupted(plan, parts, tell):
    """Record two parts and begin another file, then end."""
    in_turn(plan, parts[:2], tell)
    (plan.out / "data" / ".part-00003.parquet.123.partial").write_text("half")
    raise Lost


@pytest.mark.slow
def test_the_bytes_are_those_of_a_build_in_one_process(tiny_recipe, tiny_dataset, tmp_path):
    """Also when it is interrupted, and given again with or without other processes."""
    out, told = tmp_path / "d", []
    with pytest.raises(Lost):
        build(tiny_recipe, behaviours(tiny_recipe), out, elsewhere=interrupted)
    build(
        tiny_recipe, behaviours(tiny_recipe), out, elsewhere=in_turn,
        progress=lambda *counts: told.append(counts),
    )  # fmt: skip
    assert digest(out) == digest(tiny_dataset)
    parts = len(mf.read_manifest(out).parts)
    assert told == [(n, parts) for n in range(2, parts + 1)]

    other = tmp_path / "other"
    with pytest.raises(Lost):
        build(tiny_recipe, behaviours(tiny_recipe), other, elsewhere=interrupted)
    build(tiny_recipe, behaviours(tiny_recipe), other)
    assert digest(other) == digest(tiny_dataset)


@pytest.mark.slow
def test_partial_files_of_killed_processes_are_removed(tiny_recipe, tiny_dataset, tmp_path):
    def killed_once(plan, parts, tell):
        (plan.out / "data" / ".part-00001.parquet.123.partial").write_text("half")
        in_turn(plan, parts, tell)

    build(tiny_recipe, behaviours(tiny_recipe), tmp_path / "d", elsewhere=killed_once)
    assert digest(tmp_path / "d") == digest(tiny_dataset)


@pytest.mark.slow
def test_an_append_has_the_same_bytes(tiny_recipe, tmp_path):
    """Repetitions of a behaviour continue to count, and so do parts and episodes."""
    again = load_recipe("binpack-synthetic-v1", AGAIN)
    for folder, how in (("here", None), ("there", in_turn)):
        out = tmp_path / folder
        build(tiny_recipe, behaviours(tiny_recipe), out)
        append(again, behaviours(again), out, elsewhere=how)
    assert digest(tmp_path / "here") == digest(tmp_path / "there")


@pytest.mark.slow
def test_a_dataset_in_a_store_is_recorded_there(tiny_recipe, tiny_dataset):
    out = location(f"memory://shared-{os.getpid()}/d")
    build(tiny_recipe, behaviours(tiny_recipe), out, elsewhere=in_turn)
    assert mf.read_manifest(out).parts == mf.read_manifest(tiny_dataset).parts
    assert (out / "manifest.json").read_bytes() == (tiny_dataset / "manifest.json").read_bytes()


@pytest.mark.slow
def test_a_damaged_part_is_recorded_again(tiny_recipe, tiny_dataset, tmp_path):
    """A part of the right size with other bytes, and one whose episodes are missing."""

    def damaging(plan, parts, tell):
        named = share(plan)
        for part in parts[:2]:
            record(**named, part=part, behaviours=behaviours)
        path = plan.part_path(0)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        (plan.out / ".building" / plan.part_path(1).name).unlink()
        in_turn(plan, parts, tell)

    build(tiny_recipe, behaviours(tiny_recipe), tmp_path / "d", elsewhere=damaging)
    assert digest(tmp_path / "d") == digest(tiny_dataset)


def test_a_plan_that_cannot_be_used_is_refused(tiny_recipe, tmp_path, monkeypatch):
    def elsewhere(plan, parts, tell):
        named = share(plan)
        with pytest.raises(DatasetError, match="the folder holds another build by now"):
            record(named["out"], "0" * 64, parts[0], behaviours)
        nowhere = str(tmp_path / "nowhere")
        with pytest.raises(DatasetError, match=r"nowhere.*no such file on .* the same folder"):
            record(nowhere, named["plan"], parts[0], behaviours)
        monkeypatch.setattr(shared_plan.mf, "versions", lambda: {"numpy": "0"})
        with pytest.raises(DatasetError, match=r"other versions of python, .* install the same"):
            record(**named, part=parts[0], behaviours=behaviours)
        raise Lost

    with pytest.raises(Lost):
        build(tiny_recipe, behaviours(tiny_recipe), tmp_path / "d", elsewhere=elsewhere)


def test_a_relative_folder_is_shared_by_its_whole_path(tiny_recipe, tmp_path, monkeypatch):
    def elsewhere(plan, _parts, _tell):
        assert share(plan)["out"] == str(tmp_path / "d")
        raise Lost

    monkeypatch.chdir(tmp_path)
    with pytest.raises(Lost):
        build(tiny_recipe, behaviours(tiny_recipe), Path("d"), elsewhere=elsewhere)
