"""Tests of differences between datasets, from recipes to values, and of equal datasets."""

import contextlib
import shutil
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.inspection.diff import compare, first_difference, report
from hindcast.pipeline.inspection.list import find
from hindcast.pipeline.inspection.show import details
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.storage.files import write_atomically
from hindcast.pipeline.storage.location import location
from hindcast.policies.registry import behaviours
from tests.conftest import TINY

PART = "data/part-00001.parquet"


@pytest.fixture
def copy(tiny_dataset, tmp_path):
    shutil.copytree(tiny_dataset, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Return the same recipe with another seed and more exploration in one behaviour."""
    folder = tmp_path_factory.mktemp("other") / "d"
    recipe = load_recipe("binpack-synthetic-v1", [*TINY, "seed=2"])
    build(recipe, behaviours(recipe), folder)
    return folder


def change(path, column, make):
    """Rewrite a Parquet file with one column replaced."""
    table = pq.read_table(path)
    index = table.schema.get_field_index(column)
    field = table.schema.field(column)
    values = make(table.column(column).to_pylist())
    pq.write_table(table.set_column(index, field, pa.array(values, field.type)), path)


def test_a_dataset_and_its_copy_are_the_same(tiny_dataset, copy):
    assert compare(tiny_dataset, copy) == []
    assert report([]) == [
        "the same: recipe, spec, versions, workload, episodes and the bytes of all parts"
    ]


def test_another_seed_is_named_first_and_then_what_it_changed(tiny_dataset, other):
    found = compare(tiny_dataset, other)
    assert (found[0].section, found[0].key, found[0].a, found[0].b) == ("recipe", "seed", 1, 2)
    sections = [d.section for d in found]
    assert sections == sorted(
        sections,
        key=["recipe", "spec", "versions", "workload", "episodes", "parts", "files"].index,
    )
    assert {"recipe", "workload", "episodes", "parts", "files"} <= set(sections)
    [returns] = [d for d in found if d.key == "return"]
    a, b = ds.open(tiny_dataset).episodes(), ds.open(other).episodes()
    assert (returns.a, returns.b) == (a["return"][0], b["return"][0])
    differing = int((a["return"] != b["return"]).sum())
    assert returns.note.startswith(f"{differing} of 96 shared episodes")
    assert f"{(b['return'] - a['return']).filter(a['return'] != b['return']).mean():.6g}" in (
        returns.note
    )


@pytest.mark.slow
def test_a_behaviour_that_only_one_has_is_one_difference(tiny_dataset, tiny_recipe, tmp_path):
    import dataclasses

    fewer = dataclasses.replace(
        tiny_recipe, id="binpack-synthetic-v1", behaviours=tiny_recipe.behaviours[1:]
    )
    build(fewer, behaviours(fewer), tmp_path / "d")
    found = compare(tiny_dataset, tmp_path / "d")
    [of_recipe] = [d for d in found if d.section == "recipe"]
    assert of_recipe.key == "behaviours.random_linear+eps0.1"
    assert of_recipe.note == "only in a"
    [only] = [d for d in found if d.key == "only in a"]
    assert only.note.startswith("48 of 96 episodes: train window 0 random_linear+eps0.1 seed 0, ")
    assert not [d for d in found if d.key in {"only in b", "return", "makespan_s"}]


@pytest.mark.parametrize("column", ["reward", "time_s", "propensity", "choice", "terminated"])
def test_one_value_of_one_row_is_found(column, tiny_dataset, copy):
    def make(values):
        values[100] = not values[100] if isinstance(values[100], bool) else values[100] + 1
        return values

    change(copy / PART, column, make)
    found = first_difference(tiny_dataset / PART, copy / PART, ds.open(copy).spec)
    row = pq.read_table(tiny_dataset / PART).slice(100, 1).to_pylist()[0]
    assert (found.episode, found.step, found.column) == (row["episode"], row["step"], column)
    assert found.a == row[column]
    [first, where] = [d for d in compare(tiny_dataset, copy) if d.section == "parts"]
    assert "1 of 4 parts differ" in first.note
    assert where.note == f"first at episode {row['episode']}, step {row['step']}, column {column}"


def test_one_feature_of_one_candidate_is_found(tiny_dataset, copy):
    def make(values):
        values[7][1]["duration_s"] += 1
        return values

    change(copy / PART, "candidates", make)
    found = first_difference(tiny_dataset / PART, copy / PART, ds.open(copy).spec)
    assert found.column == "candidates.duration_s[1]"
    assert found.b == found.a + 1


def test_a_list_of_another_length_is_found(tiny_dataset, copy):
    change(copy / PART, "feasible", lambda values: [*values[:3], [*values[3], True], *values[4:]])
    found = first_difference(tiny_dataset / PART, copy / PART, ds.open(copy).spec)
    assert found.column == "feasible (length)"
    assert found.b == found.a + 1


def test_the_first_row_counts_not_the_first_column(tiny_dataset, copy):
    change(copy / PART, "time_s", lambda values: [*values[:50], -1.0, *values[51:]])
    change(copy / PART, "elapsed_s", lambda values: [*values[:20], -1.0, *values[21:]])
    found = first_difference(tiny_dataset / PART, copy / PART, ds.open(copy).spec)
    assert (found.column, found.b) == ("elapsed_s", -1.0)


def test_a_null_is_not_a_zero(tiny_dataset, copy):
    rewards = pq.read_table(tiny_dataset / PART).column("reward").to_pylist()
    at = rewards.index(0.0)
    change(copy / PART, "reward", lambda values: [*values[:at], None, *values[at + 1 :]])
    found = first_difference(tiny_dataset / PART, copy / PART, ds.open(copy).spec)
    assert (found.column, found.a, found.b) == ("reward", 0.0, None)


def test_the_same_values_in_other_row_groups_are_the_same_values(tiny_dataset, copy):
    table = pq.read_table(copy / PART)
    pq.write_table(table, copy / PART, row_group_size=777)
    assert first_difference(tiny_dataset / PART, copy / PART, ds.open(copy).spec) is None
    notes = [d.note for d in compare(tiny_dataset, copy) if d.section == "parts"]
    assert notes[1] == "all values are equal; only the encoding differs"


def test_not_a_number_equals_itself(tiny_dataset, copy, tmp_path):
    for path in (copy / PART, copy / "data" / "part-00000.parquet"):
        shutil.copy(tiny_dataset / PART, path)
        change(path, "reward", lambda values: [np.nan, *values[1:]])
    spec = ds.open(tiny_dataset).spec
    assert first_difference(copy / PART, copy / "data" / "part-00000.parquet", spec) is None
    assert first_difference(copy / PART, tiny_dataset / PART, spec).column == "reward"


def test_rows_too_few_are_found(tiny_dataset, copy):
    table = pq.read_table(copy / PART)
    pq.write_table(table.slice(0, table.num_rows - 5), copy / PART)
    found = first_difference(tiny_dataset / PART, copy / PART, ds.open(copy).spec)
    assert (found.column, found.a, found.b) == ("row", "a row", None)


def test_an_episode_changed_behind_the_manifest_is_found(tiny_dataset, copy):
    path = copy / "episodes.parquet"
    frame = pl.read_parquet(path)
    changed = frame.with_columns(
        pl.when(pl.col("episode") == 5).then(0.0).otherwise(pl.col("return")).alias("return")
    )
    changed.write_parquet(path)
    found = compare(tiny_dataset, copy)
    assert [(d.section, d.key) for d in found] == [
        ("episodes", "return"), ("files", "episodes.parquet"),
    ]  # fmt: skip
    assert "1 of 96 shared episodes" in found[0].note


def test_a_file_that_only_one_has_is_named(tiny_dataset, copy):
    (copy / "README.md").unlink()
    (copy / "workload" / "notes.txt").write_text("x")
    found = {d.key: d.note for d in compare(tiny_dataset, copy)}
    assert found == {"README.md": "only in a", "workload/notes.txt": "only in b"}


@pytest.mark.slow
def test_other_columns_are_told_apart_by_the_spec(tiny_dataset, tmp_path):
    recipe = load_recipe("binpack-synthetic-v1", [*TINY, 'config.features="extended"'])
    build(recipe, behaviours(recipe), tmp_path / "d")
    found = compare(tiny_dataset, tmp_path / "d")
    assert {"candidates.total", "candidates.running", "candidates.finished"} == {
        d.key for d in found if d.section == "spec"
    }
    assert "the columns or the closing rows differ, so rows are not compared" in [
        d.note for d in found
    ]


def test_what_is_no_dataset_is_an_error(tiny_dataset, tmp_path):
    with pytest.raises(DatasetError, match="no such folder"):
        compare(tiny_dataset, tmp_path / "no")


def test_lines_are_short(tiny_dataset, other):
    assert all(len(line) < 700 for line in report(compare(tiny_dataset, other)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_every_change_of_a_byte_is_a_difference_or_a_clear_error(seed, tiny_dataset, copy):
    """Listing and showing a changed folder also give a result or one clear error."""
    rng = np.random.default_rng(seed)
    files = sorted(p.relative_to(tiny_dataset) for p in tiny_dataset.rglob("*") if p.is_file())
    for _ in range(6):
        name = files[rng.integers(len(files))]
        content = bytearray((tiny_dataset / name).read_bytes())
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        (copy / name).write_bytes(content)
        found = []
        for look in (lambda: list(find([copy])), lambda: details(copy)):
            with contextlib.suppress(InputError):
                look()
        try:
            found = compare(tiny_dataset, copy)
        except InputError as error:
            found = [error]
        assert found, name
        (copy / name).write_bytes((tiny_dataset / name).read_bytes())


@pytest.mark.slow
def test_datasets_in_a_store_are_listed_shown_and_compared(tiny_dataset, tmp_path):
    pytest.importorskip("upath")
    store = location("memory://compared")
    for path in tiny_dataset.rglob("*"):
        if path.is_file():
            target = store / "d" / path.relative_to(tiny_dataset).as_posix()
            write_atomically(target, partial(shutil.copyfile, path))
    [entry] = find([store])
    assert (entry.damage, entry.facts["episodes"]) == ("", 96)
    shown = details(store / "d")
    assert shown.facts["coverage"] == details(tiny_dataset).facts["coverage"]
    assert compare(tiny_dataset, store / "d") == []
