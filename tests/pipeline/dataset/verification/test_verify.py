"""Tests that verification finds every change that matters, even behind corrected checksums."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.append import append
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import DatasetError, VerificationFailed
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.spec import Outcome
from hindcast.pipeline.storage.files import sha256_file
from hindcast.policies.registry import behaviours
from tests.conftest import TINY


@pytest.fixture
def copy(tiny_dataset, tmp_path) -> Path:
    """Return a dataset to tamper with."""
    return Path(shutil.copytree(tiny_dataset, tmp_path / "copy"))


def mend(folder: Path) -> None:
    """Make sizes, rows and checksums of the manifest fit the files again."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in [*manifest["parts"], manifest["episodes"]]:
        path = folder / entry["path"]
        entry["bytes"], entry["sha256"] = path.stat().st_size, sha256_file(path)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def change(folder: Path, column: str, row: int, value: object) -> None:
    """Change one value of the first part and correct the manifest."""
    path = folder / "data" / "part-00000.parquet"
    table = pq.read_table(path)
    old = table.column(column)
    values = old.to_pylist()
    values[row] = value(values[row]) if callable(value) else value
    index = table.schema.get_field_index(column)
    changed = table.set_column(index, table.schema.field(index), pa.array(values, old.type))
    assert not changed.equals(table)
    pq.write_table(changed, path)
    mend(folder)


def test_a_sound_dataset_passes(tiny_dataset, tiny_recipe):
    result = verify(tiny_dataset, behaviours(tiny_recipe))
    named = dict(result.checks)
    decisions = ds.open(tiny_dataset).manifest.counts["decisions"]
    assert named["behaviours"] == f"probabilities of {decisions:,} decisions recomputed"
    assert set(named) >= {"manifest", "files", "workload", "episodes", "decisions", "returns"}


@pytest.fixture
def later(monkeypatch):
    """Give `binpack` a later version's spec, and an `outcome` that fills two more numbers."""

    def give(new_spec, order):
        known = load_scenario("binpack")

        def outcome(ints, floats, outcomes):
            numbers = np.full(len(outcomes), -7.0)
            found = np.zeros(len(outcomes) - order.count(None))
            known.outcome(ints, floats, found)
            for at, source in enumerate(order):
                numbers[at] = -7.0 if source is None else found[source]
            outcomes[:] = numbers

        changed = dataclasses.replace(
            known, outcome=outcome, spec=lambda config, objective: new_spec(
                known.spec(config, objective)
            ),
        )  # fmt: skip
        monkeypatch.setattr("hindcast.pipeline.scenarios.binpack.SCENARIO", changed)

    return give


def test_a_dataset_older_than_an_outcome_is_verified_in_all_it_has(later, tiny_dataset):
    """Added outcomes may have any place and value; all others are verified."""
    count = len(ds.open(tiny_dataset).spec.outcomes)
    order = [0, None, *range(1, count), None]

    def longer(spec):
        first, *others = spec.outcomes
        one, two = Outcome("one", "1", "new"), Outcome("two", "1", "new")
        return dataclasses.replace(spec, outcomes=(first, one, *others, two))

    later(longer, order)
    named = dict(verify(tiny_dataset).checks)
    assert named["outcomes"] == "not in the dataset, which is older than these outcomes: one, two"
    assert "returns" in named
    with pytest.raises(DatasetError, match="build the dataset again to append to it"):
        append(load_recipe("binpack-synthetic-v1", TINY), {}, tiny_dataset)


def test_an_older_dataset_whose_own_outcomes_differ_fails(later, tiny_dataset):
    """Wrong values of old outcomes are found although a new outcome was added."""
    count = len(ds.open(tiny_dataset).spec.outcomes)
    order = [1, 0, *range(2, count), None]  # the first two in the wrong order
    later(lambda spec: dataclasses.replace(
        spec, outcomes=(*spec.outcomes, Outcome("new", "1", "new"))), order)  # fmt: skip
    with pytest.raises(VerificationFailed, match="the simulator gives"):
        verify(tiny_dataset)


@pytest.mark.parametrize(
    "other",
    [
        lambda spec: dataclasses.replace(spec, outcomes=spec.outcomes[:-1]),
        lambda spec: dataclasses.replace(spec, outcomes=spec.outcomes[::-1]),
        lambda spec: dataclasses.replace(
            spec, outcomes=(Outcome("new", "1", "a new headline"), *spec.outcomes)
        ),
        lambda spec: dataclasses.replace(
            spec, outcomes=(dataclasses.replace(spec.outcomes[0], unit="h"), *spec.outcomes[1:])
        ),
        lambda spec: dataclasses.replace(
            spec, discount=0.5, outcomes=(*spec.outcomes, Outcome("new", "1", "new"))
        ),
    ],
    ids=["one less", "reversed", "another headline", "another unit", "another discount"],
)
def test_a_spec_that_differs_otherwise_fails(later, tiny_dataset, other):
    later(other, [])
    with pytest.raises(VerificationFailed, match="the spec differs from that of the scenario"):
        verify(tiny_dataset)


@pytest.mark.parametrize("name", ["data/part-00000.parquet", "episodes.parquet"])
@pytest.mark.parametrize("where", [0.1, 0.5, 0.99])
def test_a_flipped_byte_is_found(copy, name, where):
    path = copy / name
    content = bytearray(path.read_bytes())
    content[int(len(content) * where)] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(VerificationFailed, match="SHA-256"):
        verify(copy)


def test_a_missing_part_is_found(copy):
    (copy / "data" / "part-00001.parquet").unlink()
    with pytest.raises(
        VerificationFailed, match=r"part-00001\.parquet: this file of the manifest is missing"
    ):
        verify(copy)


def test_a_part_too_many_is_found(copy):
    shutil.copy(copy / "data" / "part-00000.parquet", copy / "data" / "part-00099.parquet")
    with pytest.raises(
        VerificationFailed, match=r"part-00099\.parquet: this file is not in the manifest"
    ):
        verify(copy)


def test_a_truncated_part_is_found(copy):
    path = copy / "data" / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(VerificationFailed, match="bytes"):
        verify(copy)
    mend(copy)
    with pytest.raises(VerificationFailed, match="cannot be read as Parquet"):
        verify(copy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("reward", lambda x: x - 1.0, "the reward differs"),
        ("elapsed_s", lambda x: x + 1.0, "elapsed_s differs"),
        ("time_s", lambda x: x + 1.0, "time_s differs"),
        ("terminated", True, "terminated or truncated differs"),
        ("truncated", True, "terminated or truncated differs"),
        ("propensity", lambda x: x / 2, "the propensity is not the probability"),
        ("choice", 10_000, "the choice is not feasible"),
        ("choice", -5, "the choice is not feasible"),
        ("step", 99, "out of order"),
        ("episode", 77, "out of order|not due|too early"),
        ("context", lambda c: {**c, "waiting_tasks": c["waiting_tasks"] + 1}, "context differs"),
        (
            "candidates",
            lambda c: [{**c[0], "cores": c[0]["cores"] + 1}, *c[1:]],
            "a candidate differs",
        ),
        ("feasible", lambda f: [False, *f[1:]], "mask differs"),
        ("reward_terms", lambda t: {**t, "slowdown": t["slowdown"] - 1}, "reward term differs"),
        ("behaviour_probabilities", lambda p: [x / 2 for x in p], "propensity|sum to 1"),
    ],
)
def test_a_changed_row_is_found_behind_mended_checksums(copy, column, value, reason):
    change(copy, column, 3, value)
    with pytest.raises(VerificationFailed, match=reason):
        verify(copy)


def test_a_choice_that_was_not_made_is_found(copy):
    """Another feasible choice with its own propensity is found by the next observation."""
    path = copy / "data" / "part-00000.parquet"
    table = pq.read_table(path)
    row = next(
        i
        for i, (c, p) in enumerate(
            zip(
                table["choice"].to_pylist(), table["behaviour_probabilities"].to_pylist(),
                strict=True,
            )
        )
        if c is not None and len(p) > 2 and sum(x > 0 for x in p) > 1
    )  # fmt: skip
    old = table["choice"][row].as_py()
    probabilities = table["behaviour_probabilities"][row].as_py()
    other = next(i for i, p in enumerate(probabilities) if p > 0 and i != old)
    choice, propensity = table["choice"].to_pylist(), table["propensity"].to_pylist()
    choice[row], propensity[row] = other, probabilities[other]
    for name, values in (("choice", choice), ("propensity", propensity)):
        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        table = table.set_column(index, field, pa.array(values, field.type))
    pq.write_table(table, path)
    mend(copy)
    with pytest.raises(VerificationFailed, match="differs from the simulator's"):
        verify(copy)


def test_probabilities_of_another_policy_are_found(copy, tiny_recipe):
    """The probabilities sum to 1 and the propensity fits, but the behaviour's rule gives others."""
    path = copy / "data" / "part-00000.parquet"
    table = pq.read_table(path)
    row = next(
        i for i, p in enumerate(table["behaviour_probabilities"].to_pylist()) if p and len(p) > 2
    )
    size = len(table["behaviour_probabilities"][row])
    probabilities = table["behaviour_probabilities"].to_pylist()
    propensity = table["propensity"].to_pylist()
    choice = table["choice"][row].as_py()
    skewed = [0.3 / (size - 1)] * size
    skewed[choice] = 0.7
    probabilities[row] = skewed
    index = table.schema.get_field_index("behaviour_probabilities")
    table = table.set_column(
        index, table.schema.field(index), pa.array(probabilities, table.schema.field(index).type)
    )
    propensity[row] = pc.cast(pa.scalar(0.7), pa.float32()).as_py()
    index = table.schema.get_field_index("propensity")
    table = table.set_column(index, table.schema.field(index), pa.array(propensity, pa.float32()))
    pq.write_table(table, path)
    mend(copy)
    with pytest.raises(VerificationFailed, match="not those of the behaviour policy"):
        verify(copy, behaviours(tiny_recipe))


@pytest.mark.parametrize("column", ["return", "makespan_s", "steps", "mean_slowdown"])
def test_a_wrong_return_or_outcome_is_found(copy, column):
    path = copy / "episodes.parquet"
    frame = pl.read_parquet(path)
    changed = frame.with_columns(
        pl.when(pl.col("episode") == 2).then(pl.col(column) + 1).otherwise(pl.col(column))
        .alias(column).cast(frame.schema[column])
    )  # fmt: skip
    changed.write_parquet(path)
    mend(copy)
    with pytest.raises(VerificationFailed, match=column if column != "steps" else "counts"):
        verify(copy)


def test_a_changed_recipe_is_found(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["recipe"]["seed"] += 1
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(VerificationFailed, match="digest"):
        verify(copy)


def test_a_changed_workload_is_found(copy):
    path = copy / "workload" / "tasks.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(pl.col("cores") * 2).write_parquet(path)
    with pytest.raises(VerificationFailed, match=r"tasks\.parquet: this file was changed"):
        verify(copy)


def test_what_is_no_dataset_is_said_to_be_none(tmp_path):
    with pytest.raises(DatasetError, match="no such folder"):
        verify(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match=r"no manifest\.json"):
        verify(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DatasetError, match="not valid JSON"):
        verify(tmp_path)


def test_a_manifest_that_leaves_the_folder_is_refused(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["parts"][0]["path"] = "../../etc/passwd"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DatasetError, match="expected data/part-NNNNN"):
        verify(copy)
