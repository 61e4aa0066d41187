"""Tests that the real Alibaba 2017 files give the numbers that are known about them."""

import polars as pl
import pytest

from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.workloads.schema import Workload
from tests.conftest import require_traces


@pytest.fixture(scope="module")
def jobs() -> Workload:
    workload, quarantine = FORMATS["alibaba2017"].read(require_traces("alibaba2017"))
    assert quarantine.is_empty()
    return workload


def chunk_instances(workload: Workload) -> pl.DataFrame:
    """Return the instances of each chunk of ten jobs: chunk, instances, jobs."""
    return (
        workload.tasks.group_by(chunk=pl.col("job") // 10)
        .agg(pl.col("instances").sum(), jobs=pl.col("job").n_unique())
        .sort("chunk")
    )


def test_jobs_csv_is_the_workload_of_the_paper(jobs: Workload) -> None:
    counts = jobs.provenance.counts
    assert (counts["tasks"], counts["jobs"], counts["instances"]) == (31_756, 5_216, 2_551_075)
    assert [file.name for file in jobs.provenance.files] == ["jobs.csv", "server_event.csv"]
    assert jobs.provenance.left_out == {}


def test_chunks_of_ten_jobs_have_the_sizes_of_the_paper(jobs: Workload) -> None:
    chunks = chunk_instances(jobs)
    full = chunks.filter(pl.col("jobs") == 10)
    assert full.height == 521
    assert chunks["jobs"][-1] == 6
    assert full["instances"].median() == 3_162
    assert full.sort("instances").row(-1)[:2] == (423, 85_509)
    assert chunks.head(200)["instances"].sum() == 612_529


def test_every_even_chunk_has_the_instances_that_the_reference_simulator_saw(
    jobs: Workload,
) -> None:
    """All 261 chunks are equal, so the order of the jobs is right."""
    golden = require_traces("../golden/cloudsimpy_makespan.csv")
    expected = pl.read_csv(golden).select("chunk", "instances")
    ours = chunk_instances(jobs).filter(pl.col("chunk") % 2 == 0).select("chunk", "instances")
    assert expected.height == 261
    assert ours.rows() == expected.rows()


def test_seventy_eight_jobs_have_several_submissions_and_one_remains(jobs: Workload) -> None:
    raw = pl.read_csv(require_traces("alibaba2017") / "jobs.csv")
    by_job = raw.group_by("job_id").agg(
        pl.col("submit_time").n_unique().alias("several"), pl.col("submit_time").last()
    )
    assert by_job.filter(pl.col("several") > 1).height == 78
    ours = jobs.tasks.group_by("job_id").agg(pl.col("submit_s").unique()).explode("submit_s")
    assert ours.height == 5_216
    both = by_job.join(ours.cast({"job_id": pl.Int64}), on="job_id")
    assert both.filter(pl.col("submit_time") != pl.col("submit_s")).is_empty()


def test_the_machines_are_those_of_the_trace(jobs: Workload) -> None:
    machines = jobs.machines
    assert machines is not None
    assert machines.height == 1_313
    assert machines["cores"].unique().to_list() == [64.0]
    assert machines["memory"].max() == pytest.approx(1.0)
    assert machines["memory"].min() == pytest.approx(0.575, abs=5e-4)
    assert machines["memory"].mean() == pytest.approx(0.693, abs=5e-4)


@pytest.mark.slow
def test_the_original_table_gives_what_is_usable_of_it() -> None:
    workload, quarantine = FORMATS["alibaba2017"].read(
        require_traces("alibaba2017") / "batch_task.csv"
    )
    assert workload.provenance.counts["rows_read"] == 46_587
    assert workload.tasks.height == 40_796
    assert quarantine.is_empty()
    assert workload.provenance.left_out == {
        "lasted 0 s": 20,
        "status Failed": 605,
        "status Running": 2_063,
        "status Waiting": 3_103,
    }


@pytest.mark.slow
def test_both_readers_agree_on_the_tasks_that_both_have(jobs: Workload) -> None:
    """Instances are equal, and jobs.csv is 173 s later for nearly all tasks."""
    original, _ = FORMATS["alibaba2017"].read(require_traces("alibaba2017") / "batch_task.csv")
    both = jobs.tasks.join(original.tasks, on=["job_id", "task_id"])
    assert both.height > 18_000
    assert (both["instances"] == both["instances_right"]).all()
    assert (both["submit_s"] - both["submit_s_right"] == 173).mean() > 0.95


def test_the_resaved_table_with_a_header_reads_too() -> None:
    workload, quarantine = FORMATS["alibaba2017"].read(
        require_traces("alibaba2017") / "batch_task_with_header_head.csv"
    )
    assert workload.provenance.counts["rows_read"] == 199
    assert workload.tasks.height == 176
    assert quarantine.is_empty()
