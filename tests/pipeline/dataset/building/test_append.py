"""Tests of appending: new parts beside the old ones, complete or absent, nothing drawn twice."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building.append import append
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.building.results import BuildResult
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import DatasetError, InputError, VerificationFailed
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.policies.registry import behaviours
from tests.conftest import TINY
from tests.pipeline.dataset.building.test_build import digest

FIRST = (
    *TINY, 'split.train="0..1"', 'dataset_splits=["train"]',
    'behaviours=[{policy="random"}, {policy="tetris", epsilon=0.2}]',
)  # fmt: skip
MORE = (
    *TINY, 'split.train="1..5"', 'dataset_splits=["train", "validation"]',
    'behaviours=[{policy="random", episodes=9}, {policy="first_fit", epsilon=0.1, episodes=2}]',
)  # fmt: skip


def recipe(settings: tuple[str, ...], *more: str) -> Recipe:
    return load_recipe("binpack-synthetic-v1", (*settings, *more))


def add(one: Recipe, out: Path, **settings: Any) -> BuildResult:
    return append(one, behaviours(one), out, **settings)


def check(out: Path) -> None:
    """Check that the dataset verifies with the rules of all recipes."""
    known = {k: v for r in mf.read_manifest(out).recipes for k, v in behaviours(r).items()}
    verify(out, known)


def rows(out: Path) -> pl.DataFrame:
    """Return the decisions with split, window and behaviour, but not their numbers."""
    opened = ds.open(out)
    parts = [out / part.path for part in opened.manifest.parts]
    labels = opened.episodes().select("episode", "behaviour", "window", "seed")
    joined = pl.read_parquet(parts).join(labels, on="episode").drop("episode")
    return joined.sort("behaviour", "window", "seed", "step")


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Path:
    """Return the dataset before appending. Tests copy it."""
    out = tmp_path_factory.mktemp("append") / "old"
    build(recipe(FIRST), behaviours(recipe(FIRST)), out)
    return out


@pytest.fixture(scope="module")
def new(old, tmp_path_factory) -> Path:
    """Return the same dataset with MORE appended. Tests only read it."""
    out = tmp_path_factory.mktemp("append") / "new"
    shutil.copytree(old, out)
    add(recipe(MORE), out)
    return out


def copied(old: Path, out: Path) -> Path:
    shutil.copytree(old, out)
    return out


@pytest.mark.slow
def test_old_parts_keep_their_bytes_and_all_is_verified(old, new):
    before, after = digest(old), digest(new)
    parts = {name for name in before if name.startswith(("data/", "workload/"))}
    assert {name: after[name] for name in parts} == {name: before[name] for name in parts}
    assert "episodes.parquet" not in after
    assert not any(name.startswith(".building") for name in after)
    check(new)


def test_the_manifest_tells_who_added_what(old, new):
    was, now = mf.read_manifest(old), mf.read_manifest(new)
    assert was.appended == ()
    assert "appended" not in mf.to_json(was)
    [segment] = now.appended
    assert segment.recipe == recipe(MORE)
    assert (segment.first_part, segment.first_episode) == (len(was.parts), 4)
    assert now.parts[: len(was.parts)] == was.parts
    assert now.recipe == was.recipe
    assert now.digest not in {was.digest, segment.digest}
    episodes = ds.open(new).episodes()
    assert now.counts["episodes"] == episodes.height == 4 + 7 * 11
    assert episodes.head(4).equals(ds.open(old).episodes())
    assert episodes["episode"].to_list() == list(range(episodes.height))
    assert set(ds.open(new).episodes("validation")["window"]) == {6, 7}


def test_repetitions_go_on_counting(new):
    """On window 1 `random` had one episode, so the nine appended ones have repetitions 1 to 9."""
    episodes = ds.open(new).episodes().filter(pl.col("behaviour") == "random")
    assert episodes.filter(pl.col("window") == 1)["seed"].to_list() == list(range(10))
    assert episodes.filter(pl.col("window") == 2)["seed"].to_list() == list(range(9))
    assert not ds.open(new).episodes().select("behaviour", "window", "seed").is_duplicated().any()


@pytest.mark.slow
def test_what_is_appended_is_what_more_episodes_would_have_been(old, tmp_path):
    """A dataset built with two episodes each equals one built with one episode and appended to."""
    two = recipe(FIRST, 'behaviours=[{policy="random", episodes=2}, '
                        '{policy="tetris", epsilon=0.2, episodes=2}]')  # fmt: skip
    build(two, behaviours(two), tmp_path / "two")
    add(recipe(FIRST), copied(old, tmp_path / "d"))
    assert rows(tmp_path / "d").equals(rows(tmp_path / "two"))


@pytest.mark.slow
def test_workers_do_not_change_a_byte(old, new, tmp_path):
    add(recipe(MORE), copied(old, tmp_path / "d"), workers=3)
    assert digest(tmp_path / "d") == digest(new)


@pytest.mark.slow
def test_a_second_recipe_is_appended_behind_the_first(new, tmp_path):
    out = copied(new, tmp_path / "d")
    result = add(recipe(FIRST), out)
    manifest = mf.read_manifest(out)
    assert [s.first_episode for s in manifest.appended] == [4, 81]
    assert (result.episodes, result.digest) == (85, manifest.digest)
    assert manifest.episodes.path == "episodes-00002.parquet"
    check(out)


def test_given_once_more_it_adds_nothing(old, new, tmp_path):
    """Also after other appends: it may be a command that was killed and is repeated late."""
    out = copied(new, tmp_path / "d")
    assert add(recipe(MORE), out).appended_before
    assert digest(out) == digest(new)
    assert not add(recipe(FIRST), out).appended_before
    after = digest(out)
    for again in (MORE, FIRST):
        assert add(recipe(again), out).appended_before
        assert digest(out) == after


@pytest.mark.slow
def test_the_digest_of_the_dataset_identifies_an_append(old, new, tmp_path):
    """Once more on purpose, and only once however often it is asked for."""
    out, first = copied(new, tmp_path / "d"), mf.read_manifest(old).digest
    before = mf.read_manifest(new).digest
    assert add(recipe(MORE), out, to=first[:12]).appended_before
    assert digest(out) == digest(new)
    with pytest.raises(DatasetError, match="expected 0123456789ab to append"):
        add(recipe(MORE), out, to="0123456789ab")
    with pytest.raises(DatasetError, match="expected 8 to 64 hexadecimal digits"):
        add(recipe(MORE), out, to="newest")
    assert digest(out) == digest(new)
    assert add(recipe(MORE), out, to=before[:12]).episodes == 4 + 2 * 77
    after = digest(out)
    check(out)
    for to in (before, before[:8], first, ""):
        assert add(recipe(MORE), out, to=to).appended_before
        assert digest(out) == after
    with pytest.raises(DatasetError, match="this dataset has the digest"):
        add(recipe(FIRST), out, to=before)


@pytest.mark.slow
def test_an_interrupted_second_append_is_finished_by_either_command(old, tmp_path):
    small = recipe(FIRST, 'split.train="0..0"')
    once = copied(old, tmp_path / "once")
    before = add(small, once).digest
    wanted = add(small, copied(once, tmp_path / "twice"), to=before)
    for to in ("", before):
        out = copied(once, tmp_path / f"again{to}")
        with pytest.raises(Killed), killed_at(9):
            add(small, out, to=before)
        assert (out / ".building" / "plan.json").exists()
        assert add(small, out, to=to).digest == wanted.digest
        assert digest(out) == digest(tmp_path / "twice")


def test_the_first_recipe_finds_its_dataset_built(new, tmp_path):
    """`hindcast run` continues with a dataset that was appended to."""
    out = copied(new, tmp_path / "d")
    first = recipe(FIRST)
    assert build(first, behaviours(first), out).digest == mf.read_manifest(new).digest
    assert digest(out) == digest(new)
    with pytest.raises(DatasetError, match="or append to the dataset with --append"):
        build(recipe(MORE), behaviours(recipe(MORE)), out)


class Killed(BaseException):
    """Exception that stands for the end of the process: nothing runs after it."""


@contextmanager
def killed_at(number: int) -> Iterator[Callable[[], int]]:
    """Block every rename, removal and creation from the operation of that number on."""
    patch, done = pytest.MonkeyPatch(), 0

    def counting(operation: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **settings: Any) -> Any:
            nonlocal done
            done += 1
            if done > number:
                raise Killed
            return operation(*arguments, **settings)

        return counted

    for name in ("replace", "unlink", "rmdir", "mkdir"):
        patch.setattr(os, name, counting(getattr(os, name)))
    try:
        yield lambda: done
    finally:
        patch.undo()


@pytest.mark.slow
def test_killed_at_any_operation_it_is_the_old_or_the_new_one(old, tmp_path):
    """After a kill the folder opens and verifies as the old or the new dataset.

    The old one is unchanged, and a second call finishes the append.
    """
    small = recipe(FIRST, 'split.train="0..0"')
    whole = copied(old, tmp_path / "whole")
    with killed_at(10**6) as count:
        add(small, whole)
        operations = count()
    assert operations > 15
    before, after = digest(old), digest(whole)
    seen = set()
    for number in range(operations):
        out = copied(old, tmp_path / f"at{number}")
        with pytest.raises(Killed), killed_at(number):
            add(small, out)
        episodes = ds.open(out).episodes().height
        seen.add(episodes)
        check(out)
        now = digest(out)
        if episodes == 4:
            assert {k: v for k, v in now.items() if k in before} == before
        build(recipe(FIRST), behaviours(recipe(FIRST)), out)  # leaves what is under way alone
        assert add(small, out).episodes == 6
        assert digest(out) == after, f"after operation {number}"
        shutil.rmtree(out)
    assert seen == {4, 6}


@pytest.mark.slow
def test_an_append_leaves_no_temporary_file_of_a_killed_one(old, tmp_path):
    """The kill came after the manifest was replaced, while the documents were written."""
    small = recipe(FIRST, 'split.train="0..0"')
    for number in range(8, 16):
        out = copied(old, tmp_path / f"d{number}")
        with pytest.raises(Killed), killed_at(number):
            add(small, out)
        if ds.open(out).episodes().height == 6:
            break
    assert (out / ".building" / "plan.json").exists()
    (out / ".README.md.123.partial").write_text("half")
    add(small, out)
    assert not list(out.glob(".*"))


def interrupted(old: Path, out: Path) -> Path:
    """Return a dataset in which appending MORE was interrupted."""
    copied(old, out)
    with pytest.raises(Killed), killed_at(9):
        add(recipe(MORE), out)
    assert (out / ".building" / "plan.json").exists()
    assert len(list((out / "data").glob("part-*.parquet"))) > len(mf.read_manifest(out).parts)
    return out


def test_what_is_under_way_is_told_apart_from_what_is_foreign(old, tmp_path):
    out = interrupted(old, tmp_path / "d")
    check(out)
    (out / "data" / "part-00099.parquet").write_bytes(b"x")
    with pytest.raises(
        VerificationFailed, match=r"part-00099\.parquet: this file is not in the manifest"
    ):
        check(out)
    (out / "data" / "part-00099.parquet").unlink()
    shutil.rmtree(out / ".building")
    with pytest.raises(VerificationFailed, match="this file is not in the manifest"):
        check(out)


def test_another_append_does_not_mix_with_one_under_way(old, tmp_path):
    out = interrupted(old, tmp_path / "d")
    before = digest(out)
    with pytest.raises(DatasetError, match="interrupted append of another recipe"):
        add(recipe(FIRST), out)
    del before[".lock"]  # of the killed process
    assert digest(out) == before


def test_an_older_table_of_episodes_is_foreign(new, tmp_path):
    out = copied(new, tmp_path / "d")
    (out / "episodes.parquet").write_bytes(b"x")
    with pytest.raises(
        VerificationFailed, match=r"episodes\.parquet: this file is not in the manifest"
    ):
        check(out)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("seed=2",), "seed is 1 in the dataset and 2"),
        (("config.machines=3",), "config.machines is 2 in the dataset and 3"),
        (("trace.settings.n_jobs=61",), "trace.settings.n_jobs is 60 in the dataset and 61"),
        (
            ('split.train="3..5"', 'split.test="0..2"', 'split.validation="6..7"'),
            "window 0 is in the split 'train' of the dataset, and in 'test'",
        ),
        (("behaviours=[]",), "nothing to append"),
    ],
)
def test_what_does_not_fit_is_named(settings, message, old):
    before = digest(old)
    with pytest.raises(InputError, match=message):
        add(recipe(MORE, *settings), old)
    assert digest(old) == before


def test_where_there_is_no_finished_dataset(old, tmp_path):
    with pytest.raises(DatasetError, match="no such folder"):
        add(recipe(MORE), tmp_path / "absent")
    out = copied(old, tmp_path / "d")
    (out / "manifest.json").unlink()
    with pytest.raises(DatasetError, match="no finished dataset"):
        add(recipe(MORE), out)


def test_a_segment_that_was_edited_is_found(new, tmp_path):
    """A segment whose episodes or beginning differ from its recipe is reported."""
    for key, value in (("first_episode", 5), ("first_part", 2), ("digest", "0" * 64)):
        out = copied(new, tmp_path / key)
        manifest = mf.to_json(mf.read_manifest(out))
        manifest["appended"][0][key] = value
        manifest.pop("sealed", None)
        (out / "manifest.json").write_text(mf.json_text(manifest))
        with pytest.raises((VerificationFailed, DatasetError)):
            check(out)


@pytest.mark.slow
def test_the_command_line_appends(old, tmp_path, capsys):
    out = copied(old, tmp_path / "d")
    sets = [word for value in MORE for word in ("--set", value)]
    command = ["build", "binpack-synthetic-v1", *sets, "--out", str(out), "--append", "--direct"]
    assert cli.main(command) == 0, capsys.readouterr().err
    assert "81 episodes" in capsys.readouterr().out
    assert cli.main(command) == 0
    line, note = capsys.readouterr().out.splitlines()
    assert "81 episodes" in line
    assert "nothing was added" in note
    again = note.split()[-1]
    assert line.endswith(again)
    twice = [*command[:-2], "--append-to", again, "--direct"]
    for _ in range(2):
        assert cli.main(twice) == 0
        assert "158 episodes" in capsys.readouterr().out
    assert cli.main(["verify", str(out)]) == 0
    assert cli.main([*command[:2], *sets, "--set", "seed=3", *command[-4:]]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "seed is 1 in the dataset and 3" in said
    card = (out / "README.md").read_text()
    assert "episodes-00002.parquet" in card
    assert "--append" in card


@pytest.mark.slow
def test_ties_among_the_first_rules_are_remembered(tmp_path):
    """On an idle cluster the rules tie; episodes of `random` alone do not change that."""
    idle = (*TINY, "trace.settings.instances_scale=0.001", "config.machines=50")
    rules = 'behaviours=[{policy="tetris"}, {policy="first_fit"}, {policy="longest_first"}]'
    first, second = recipe(idle, rules), recipe(idle, 'behaviours=[{policy="random"}]')
    before = build(first, behaviours(first), tmp_path / "out").caveats
    assert "ties" in [caveat.code for caveat in before]
    after = add(second, tmp_path / "out").caveats
    assert [c for c in after if c.code == "ties"] == [c for c in before if c.code == "ties"]
    check(tmp_path / "out")
