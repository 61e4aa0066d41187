"""Tests that a dataset that was built is the same log of decisions in three shapes."""

import json

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.exports import export
from hindcast.policies.ope.logs import ask
from tests.policies.trainings import train

SPLIT = {"by": "hash", "validation": 0.2, "test": 0.2}


def feasible_rows(dataset):
    """Return the decisions, a row per feasible candidate."""
    names = [dataset.spec.candidates[i].name for i in dataset.spec.learned_candidates]
    rows = (
        dataset.transitions()
        .collect()
        .join(dataset.episodes().select("episode", "window", "behaviour"), "episode")
    )
    context = [f.name for f in dataset.spec.context]
    return names, context, rows.select(
        pl.format("{}-{}", "episode", "step").alias("id"), "episode", "window", "behaviour",
        "time_s", "reward", *(pl.col("context").struct.field(n).alias(f"c_{n}") for n in context),
        "choice", "candidates", "feasible", "behaviour_probabilities",
        pl.int_ranges(pl.col("feasible").list.len()).alias("place"),
    ).explode("candidates", "feasible", "behaviour_probabilities", "place").filter(
        "feasible"
    ).with_columns(
        (pl.col("place") == pl.col("choice")).cast(pl.Int8).alias("chosen"),
        pl.col("behaviour_probabilities").cast(pl.Float64).alias("p"),
        *(pl.col("candidates").struct.field(n).cast(pl.Float64).alias(n) for n in names),
    ).with_columns(pl.col(f"c_{n}").cast(pl.Float64) for n in context)  # fmt: skip


def in_three_shapes(folder, tmp_path):
    """Return the logs of a dataset: as a long table, as nested records, and as dsjson."""
    names, context, rows = feasible_rows(ds.open(folder))
    columns = {
        "decision": "id", "session": "episode", "unit": "window", "logger": "behaviour",
        "chosen": "chosen", "reward": "reward",
    }  # fmt: skip
    numbers = {n: f"c_{n}" for n in context}
    own = {"kind": "decisions", "split": SPLIT, "context": {"numbers": numbers},
           "sessions_end": True}  # fmt: skip
    rows.drop("candidates", "feasible", "behaviour_probabilities").write_csv(tmp_path / "log.csv")
    yield read_log(tmp_path / "log.csv", {
        **own, "shape": "rows", "columns": {**columns, "probability": "p"},
        "candidates": {"numbers": names},
    })  # fmt: skip
    with (tmp_path / "log.jsonl").open("w") as file:
        for _, of in rows.group_by("id", maintain_order=True):
            record = of.select(*columns.values(), *numbers.values()).row(0, named=True)
            record |= {"chosen": of["chosen"].arg_max(), "p": of["p"].to_list()}
            file.write(json.dumps(record | {"list": of.select(names).to_dicts()}) + "\n")
    yield read_log(tmp_path / "log.jsonl", {
        **own, "shape": "nested", "columns": {**columns, "probabilities": "p"},
        "candidates": {"list": "list", "numbers": names},
    })  # fmt: skip
    path = export(folder, "dsjson", tmp_path / "log.dsjson").path
    mapping = {"kind": "decisions", "file": path.name, "shape": "dsjson", "split": SPLIT}
    yield read_log(path, mapping)


@pytest.mark.slow
def test_a_built_dataset_is_one_log_in_three_shapes(tiny_dataset, tmp_path):
    """Decisions and features are equal, estimates to 1e-6, and trained weights byte for byte."""
    found = []
    for k, log in enumerate(in_three_shapes(tiny_dataset, tmp_path)):
        folder = convert(log, tmp_path / str(k), "log").folder
        asked = ask(folder, ["uniform", f"lowest:{log.features.columns[0]}"]).estimates
        train(folder, "behaviour_cloning", out=tmp_path / f"agent{k}", steps=20, device="cpu")
        found.append((log, asked, load_file(tmp_path / f"agent{k}" / "weights.safetensors")))
    rows = ds.open(tiny_dataset).transitions().collect()
    first, estimates, weights = found[0]
    assert first.decisions["reward"].equals(rows["reward"])
    assert first.lengths.tolist() == [sum(feasible) for feasible in rows["feasible"]]
    for log, asked, trained in found[1:]:
        compared = ("session", "unit", "logger", "chosen", "propensity", "reward", "split")
        for name in compared:
            assert log.decisions[name].equals(first.decisions[name]), name
        assert log.context.equals(first.context)
        assert log.features.equals(first.features)
        assert log.lengths.tolist() == first.lengths.tolist()
        assert asked["policy", "estimator"].equals(estimates["policy", "estimator"])
        for name in ("value", "se", "low", "high", "ess"):
            right = estimates[name].fill_null(float("nan")).to_numpy()
            assert asked[name].fill_null(float("nan")).to_numpy() == pytest.approx(
                right, rel=1e-6, nan_ok=True
            )
        assert trained.keys() == weights.keys()
        assert all(np.array_equal(trained[name], weights[name]) for name in weights)
