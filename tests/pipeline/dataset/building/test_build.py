"""Building: the same bytes for any number of workers and any interruption."""

import concurrent.futures
import hashlib
import multiprocessing
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building import parts
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import DatasetError, RecipeError, StorageError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.registry import behaviours
from tests.conftest import TINY

ROOT = Path(__file__).resolve().parents[4]
KILLS = 20


def digest(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below the folder."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.mark.slow
def test_workers_do_not_change_a_byte(tiny_recipe, tiny_dataset, tmp_path):
    build(tiny_recipe, behaviours(tiny_recipe), tmp_path / "two", workers=2)
    build(tiny_recipe, behaviours(tiny_recipe), tmp_path / "five", workers=5)
    assert digest(tmp_path / "two") == digest(tiny_dataset) == digest(tmp_path / "five")


def test_a_finished_dataset_is_not_built_again(tiny_recipe, tiny_dataset, tmp_path):
    shutil.copytree(tiny_dataset, tmp_path / "copy")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "copy").rglob("*")}
    result = build(tiny_recipe, behaviours(tiny_recipe), tmp_path / "copy")
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "copy").rglob("*")} == before
    assert result.digest == tiny_recipe.digest
    assert result.episodes == ds.open(tiny_dataset).episodes().height


def build_tiny(out, ready):
    """Build the tiny dataset in a process of its own; `ready` says that it begins."""
    recipe = load_recipe("binpack-synthetic-v1", TINY)
    known = behaviours(recipe)
    ready.set()
    build(recipe, known, out, workers=2)


@pytest.mark.slow
def test_killed_builds_end_in_the_same_bytes(tiny_recipe, tiny_dataset, tmp_path):
    """SIGKILL at random points, over and over; the build that follows ends bit-identical."""
    context = multiprocessing.get_context("forkserver")  # which imports once, then forks
    context.set_forkserver_preload(
        ["hindcast.pipeline.dataset.building.build", "hindcast.policies.heuristics.binpack"]
    )
    out, ready = tmp_path / "killed", context.Event()
    rng = random.Random(7)
    kills = 0
    attempts = 0
    while kills < KILLS:
        attempts += 1
        assert attempts < 4 * KILLS, "builds end before they can be killed"
        ready.clear()
        process = context.Process(target=build_tiny, args=(out, ready))
        process.start()
        assert ready.wait(60)
        time.sleep(rng.uniform(0, 0.35))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        if (out / "manifest.json").exists() and rng.random() < 0.7:
            assert digest_without_building(out) == digest(tiny_dataset)
            shutil.rmtree(out)
    build(tiny_recipe, behaviours(tiny_recipe), out)
    assert digest(out) == digest(tiny_dataset)


def digest_without_building(folder: Path) -> dict[str, str]:
    """Digest of what is not the hidden folder of an interrupted build."""
    return {k: v for k, v in digest(folder).items() if not k.startswith(".building")}


def test_rows_line_up_as_drawn(tiny_dataset):
    """T decisions and a closing row per episode; the last decision alone terminates."""
    dataset = ds.open(tiny_dataset)
    rows = pl.read_parquet(tiny_dataset / "data" / "*.parquet").sort("episode", "step")
    for episode in dataset.episodes().head(20).iter_rows(named=True):
        own = rows.filter(pl.col("episode") == episode["episode"])
        assert own["step"].to_list() == list(range(episode["steps"] + 1))
        decisions, closing = own.head(-1), own.tail(1)
        assert closing["choice"].is_null().all()
        assert closing["reward"].is_null().all()
        assert closing["behaviour_probabilities"].is_null().all()
        assert decisions["terminated"].to_list() == [False] * (episode["steps"] - 1) + [True]
        assert decisions["reward"].sum() == episode["return"] == -episode["makespan_s"]
        assert (decisions["propensity"] > 0).all()
        assert decisions["elapsed_s"].sum() == episode["makespan_s"]


def test_propensity_is_the_logged_probability_of_the_choice(tiny_dataset):
    rows = pl.read_parquet(tiny_dataset / "data" / "*.parquet").drop_nulls("choice")
    chosen = rows["behaviour_probabilities"].list.get(rows["choice"])
    assert (chosen == rows["propensity"]).all()
    sums = rows["behaviour_probabilities"].list.sum()
    assert (sums - 1).abs().max() < 1e-5
    assert rows["feasible"].list.get(rows["choice"]).all()


def test_row_groups_end_on_episode_boundaries(tiny_dataset):
    for path in sorted((tiny_dataset / "data").glob("*.parquet")):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            assert file.read_row_group(group, columns=["choice"])["choice"][-1].as_py() is None


@pytest.mark.slow
def test_sampled_decisions_are_rows_of_the_dataset(tiny_dataset):
    """A learner gets the rows of the files, the next observation included."""
    dataset = ds.open(tiny_dataset)
    found = sample_decisions(
        dataset, "train", np.random.default_rng(3), Columns(8, transitions=True), per_episode=7
    )
    assert len(found) == 7 * len(found.episodes)
    rows = pl.read_parquet(tiny_dataset / "data" / "*.parquet").sort("episode", "step")
    index = {(e, s): i for i, (e, s) in enumerate(rows.select("episode", "step").rows())}
    assert found.next_mask is not None
    assert found.next_context is not None
    for i in range(0, len(found), 5):
        episode = found.episodes["episode"][int(found.episode[i])]
        row = rows.row(index[episode, int(found.step[i])], named=True)
        following = rows.row(index[episode, int(found.step[i]) + 1], named=True)
        assert found.mask[i, found.choice[i]]
        assert found.candidates[i, found.choice[i]].tolist() == list(
            row["candidates"][row["choice"]].values()
        )
        assert found.mask[i].sum() == min(8, len(row["candidates"]))
        assert found.drawn[i] == len(row["candidates"])
        assert found.reward[i] == row["reward"]
        assert found.context[i].tolist() == list(row["context"].values())
        assert found.next_context[i].tolist() == list(following["context"].values())
        assert found.next_mask[i].sum() == min(8, len(following["candidates"]))
        assert found.terminated[i] == row["terminated"] == (not found.next_mask[i].any())
    again = sample_decisions(
        dataset, "train", np.random.default_rng(3), Columns(8, transitions=True), per_episode=7
    )
    np.testing.assert_array_equal(again.candidates, found.candidates)


def test_a_limit_keeps_a_uniform_share(tiny_dataset):
    found = sample_decisions(
        ds.open(tiny_dataset), "validation", np.random.default_rng(0), Columns(4), limit=50
    )
    assert len(found) == 50
    with pytest.raises(DatasetError, match="split 'test' has no episodes"):
        sample_decisions(ds.open(tiny_dataset), "test", np.random.default_rng(0), Columns(4))


def test_another_recipe_does_not_overwrite(tiny_dataset, tmp_path):
    other = load_recipe("binpack-synthetic-v1", (*TINY, "seed=2"))
    shutil.copytree(tiny_dataset, tmp_path / "copy")
    with pytest.raises(DatasetError, match="choose another --out"):
        build(other, behaviours(other), tmp_path / "copy")
    assert digest(tmp_path / "copy") == digest(tiny_dataset)


def test_a_folder_of_something_else_is_left_alone(tiny_recipe, tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(StorageError, match="not empty"):
        build(tiny_recipe, behaviours(tiny_recipe), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_windows_beyond_the_workload_are_named(tmp_path):
    recipe = load_recipe("binpack-synthetic-v1", (*TINY, 'split.train="12..20"'))
    with pytest.raises(RecipeError, match="names window 20, but the workload has 12"):
        build(recipe, behaviours(recipe), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_interruption_does_not_wait_for_the_episodes_of_a_part(tmp_path, monkeypatch):
    """A part holds whole windows, and so 100,000 episodes here: they would take 1,000 s."""
    recipe = load_recipe(
        "binpack-synthetic-v1", (*TINY, 'behaviours=[{policy="random",episodes=100000}]')
    )
    record = parts._record_episode

    def slow(*arguments):
        time.sleep(0.01)
        return record(*arguments)

    told = []

    def interrupted(done: int, _total: int) -> None:
        told.append(done)
        if len(told) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(parts, "_record_episode", slow)
    with pytest.raises(KeyboardInterrupt):
        build(recipe, behaviours(recipe), tmp_path / "out", progress=interrupted)
    assert told == [0, 0]
    assert not list((tmp_path / "out" / "data").iterdir())


@pytest.mark.parametrize("step", [1, -1])
def test_of_two_parts_that_fail_the_first_is_named(step, tiny_recipe, tmp_path, monkeypatch):
    """One thread may begin and fail the second part before the first failure is noticed."""

    def fail(_plan, part, _stop):
        raise DatasetError(f"part {part} fails")

    def late(futures, **_options):
        concurrent.futures.wait(futures)
        return list(futures)[::step], set()

    monkeypatch.setattr(parts, "_record_part", fail)
    monkeypatch.setattr(parts, "wait", late)
    with pytest.raises(DatasetError, match="part 0 fails"):
        build(tiny_recipe, behaviours(tiny_recipe), tmp_path / "out")


def write_log(folder: Path, seconds: int = 300) -> Path:
    """Write a log of 159 jobs of this run time; return a recipe of it."""
    jobs = "".join(
        f"{j} {60 * j} 0 {seconds} 2 -1 -1 2 900 -1 1 1 1 -1 1 1 -1 -1\n" for j in range(1, 160)
    )
    (folder / "log.swf").write_text(f"; MaxProcs: 4\n{jobs}")
    (folder / "recipe.toml").write_text(
        'id = "q"\nscenario = "queue"\nconfig = { jobs = 10, allow_wait = true }\n'
        'split = { train = "0..1" }\ntrace = { format = "swf", path = "log.swf" }\n'
        'behaviours = [{ policy = "random" }]\n'
    )
    return folder / "recipe.toml"


@pytest.mark.slow
def test_an_interrupted_build_of_another_trace_is_not_continued(tmp_path):
    """The digest of a recipe names the file of its trace, not what the file holds."""

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    recipe, out = load_recipe(write_log(tmp_path)), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        build(recipe, behaviours(recipe), out, progress=stop)
    write_log(tmp_path, seconds=600)
    with pytest.raises(DatasetError, match="the trace was changed since"):
        build(recipe, behaviours(recipe), out)
    write_log(tmp_path)
    build(recipe, behaviours(recipe), out)
    verify(out, behaviours(recipe), trace=tmp_path / "log.swf")


@pytest.mark.slow
def test_windows_that_the_settings_do_not_list_are_no_part_of_the_dataset(tmp_path):
    starts = ("config.starts=[0, 40, 80, 120]", 'split.validation="2..9"')
    recipe = load_recipe(write_log(tmp_path), starts)
    assert build(recipe, behaviours(recipe), tmp_path / "out").episodes == 4
    verify(tmp_path / "out", behaviours(recipe))


def test_a_recipe_without_windows_to_record_is_refused(tmp_path):
    recipe = load_recipe("binpack-synthetic-v1", (*TINY, "dataset_splits=[]"))
    with pytest.raises(RecipeError, match="dataset_splits is empty"):
        build(recipe, behaviours(recipe), tmp_path / "out")
    with pytest.raises(RecipeError, match="expected every split once"):
        load_recipe("binpack-synthetic-v1", (*TINY, 'dataset_splits=["train", "train"]'))
