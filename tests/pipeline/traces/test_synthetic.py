"""Tests that the synthetic workload has the statistics of the trace that it replaces."""

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.synthetic import SyntheticConfig, generate
from hindcast.pipeline.workloads.schema import TASK_COLUMNS
from tests.conftest import require_traces

CORES, MEMORY = 5 * 64, 5 * 1.0  # the default cluster

# name: (value in jobs.csv, allowed relative error of the synthetic mean over seeds)
TRACE_STATISTICS = {
    "instances_mean": (80.3336, 0.15),
    "instances_sd": (643.54, 0.25),
    "instances_single_share": (0.4801, 0.08),
    "duration_mean": (42.6903, 0.1),
    "duration_median": (12.5, 0.15),
    "duration_sd": (74.32, 0.2),
    "memory_mean": (0.0067, 0.05),
    "memory_median": (0.0054, 0.02),
    "cores_half_share": (0.6950, 0.05),
    "cores_one_share": (0.2924, 0.08),
    "tasks_per_job_mean": (6.0882, 0.05),
    "tasks_per_job_sd": (6.8007, 0.2),
    "gap_mean": (11.4725, 0.1),
    "gap_sd": (21.87, 0.15),
    "gap_median": (5.0, 0.1),
    "chunk_instances_median": (3162.0, 0.12),
    "chunk_instances_mean": (4876.97, 0.15),
    "chunk_bound_median": (414.70, 0.25),
    "chunk_bound_mean": (871.22, 0.25),
    "contended_share": (0.9386, 0.05),
    "instances_duration_rank_correlation": (0.468, 0.1),
}


def statistics(tasks: pl.DataFrame) -> dict[str, float]:
    jobs = tasks.group_by("job").agg(pl.col("submit_s").first(), n=pl.len()).sort("job")
    gap = jobs["submit_s"].diff().drop_nulls()
    time = pl.col("instances") * pl.col("duration_s")
    chunks = (
        tasks.filter(pl.col("job") < jobs.height // 10 * 10)
        .group_by(chunk=pl.col("job") // 10)
        .agg(
            pl.col("instances").sum(),
            span=pl.col("submit_s").max() - pl.col("submit_s").min(),
            bound=pl.max_horizontal(
                (time * pl.col("cores")).sum() / CORES, (time * pl.col("memory")).sum() / MEMORY
            ),
        )
    )
    ranks = tasks.select(pl.col("instances").rank(), pl.col("duration_s").rank())
    found = {
        "instances_mean": tasks["instances"].mean(),
        "instances_sd": tasks["instances"].std(),
        "instances_single_share": (tasks["instances"] == 1).mean(),
        "duration_mean": tasks["duration_s"].mean(),
        "duration_median": tasks["duration_s"].median(),
        "duration_sd": tasks["duration_s"].std(),
        "memory_mean": tasks["memory"].mean(),
        "memory_median": tasks["memory"].median(),
        "cores_half_share": (tasks["cores"] == 0.5).mean(),
        "cores_one_share": (tasks["cores"] == 1.0).mean(),
        "tasks_per_job_mean": jobs["n"].mean(),
        "tasks_per_job_sd": jobs["n"].std(),
        "gap_mean": gap.mean(),
        "gap_sd": gap.std(),
        "gap_median": gap.median(),
        "chunk_instances_median": chunks["instances"].median(),
        "chunk_instances_mean": chunks["instances"].mean(),
        "chunk_bound_median": chunks["bound"].median(),
        "chunk_bound_mean": chunks["bound"].mean(),
        "contended_share": (chunks["bound"] > chunks["span"]).mean(),
        "instances_duration_rank_correlation": ranks.select(
            pl.corr("instances", "duration_s")
        ).item(),
    }
    return {name: float(value) for name, value in found.items()}


def drawn(seed: int, **config: float) -> pl.DataFrame:
    return generate(SyntheticConfig(**config), np.random.default_rng(seed)).tasks


@pytest.mark.slow
def test_the_marginals_and_the_contention_are_those_of_the_trace() -> None:
    """Each statistic, averaged over six seeds, is near its value in jobs.csv."""
    draws = [statistics(drawn(seed)) for seed in range(6)]
    for name, (expected, tolerance) in TRACE_STATISTICS.items():
        mean = np.mean([draw[name] for draw in draws])
        assert mean == pytest.approx(expected, rel=tolerance), name


@pytest.mark.slow
def test_the_constants_above_are_those_of_the_real_file() -> None:
    path = require_traces("alibaba2017/jobs.csv")
    real = statistics(FORMATS["alibaba2017"].read(path)[0].tasks)
    for name, (expected, _) in TRACE_STATISTICS.items():
        assert real[name] == pytest.approx(expected, rel=0.01), name


def test_values_stay_within_the_range_of_the_trace() -> None:
    tasks = drawn(1)
    assert tasks.schema == TASK_COLUMNS
    assert tasks["duration_s"].is_between(1, 3629).all()
    assert tasks["memory"].is_between(0.0027, 0.0743).all()
    assert tasks["instances"].is_between(1, 36_326).all()
    assert tasks["cores"].is_in([0.4, 0.5, 0.55, 0.65, 0.75, 1.0]).all()


def test_jobs_are_numbered_in_order_of_submission_and_tasks_inside_their_job() -> None:
    tasks = drawn(2, n_jobs=40)
    assert tasks["submit_s"].is_sorted()
    assert tasks["submit_s"][0] == 0
    assert tasks["job"].unique().to_list() == list(range(40))
    numbered = tasks.with_columns(expected=pl.int_range(pl.len()).over("job"))
    assert numbered["task"].equals(numbered["expected"], check_names=False)


def test_the_generator_state_decides_everything() -> None:
    assert drawn(3, n_jobs=30).equals(drawn(3, n_jobs=30))
    assert not drawn(3, n_jobs=30).equals(drawn(4, n_jobs=30))


def test_scale_changes_instances_alone_and_leaves_one_at_least() -> None:
    full, small = drawn(5, n_jobs=50), drawn(5, n_jobs=50, instances_scale=0.1)
    assert small.drop("instances").equals(full.drop("instances"))
    assert small["instances"].min() == 1
    assert small["instances"].sum() < 0.2 * full["instances"].sum()


def test_half_the_instances_still_contend_for_five_machines() -> None:
    assert statistics(drawn(6, instances_scale=0.5))["contended_share"] > 0.75


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"n_jobs": 0}, "n_jobs is 0, expected from 1"),
        ({"instances_scale": 0.0}, "instances_scale is 0.0, expected above 0"),
        ({"instances_scale": float("nan")}, "instances_scale is nan"),
    ],
)
def test_a_size_out_of_range_is_refused(config: dict[str, float], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        SyntheticConfig(**config)
