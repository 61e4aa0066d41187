"""`hindcast whatif --capacity`: from the text of a log with GPUs to the starts of its jobs."""

import re

import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.schedules.schedule import read_schedule
from hindcast.pipeline.workloads.folder import save_workload
from tests.conftest import require_traces
from tests.flows.whatif_pages import Answer
from tests.held_amounts import exceeded
from tests.resource_logs import golden_jobs, golden_settings, workload_of

# Minutes: submission, processors, GPUs, time limit, run and start. The schedule is by hand.
#
# batch, 8 processors and 4 GPUs: C fits in processors, not in GPUs. It gets the reservation: at 60,
# when B ends, there are (4, 2), at 100, when A would end, (8, 4), of which C leaves (6, 1). D needs
# 2 of that 1 GPU and would end at 110. E leaves (4, 0) of it, F ends by 100. A ends early at 80.
#
# accel, 4 processors and 4 GPUs: H needs all processors, J a GPU, and G has these until 100.
JOBS = {
    "A": ("batch", 0, 4, 2, 100, 80, 0), "B": ("batch", 0, 1, 0, 60, 60, 0),
    "G": ("accel", 0, 1, 4, 100, 100, 0), "H": ("accel", 5, 4, 0, 40, 40, 100),
    "C": ("batch", 10, 2, 3, 50, 50, 80), "I": ("accel", 10, 1, 0, 50, 50, 10),
    "J": ("accel", 10, 1, 1, 60, 60, 140), "D": ("batch", 20, 2, 2, 90, 90, 130),
    "E": ("batch", 20, 2, 1, 90, 90, 20), "F": ("batch", 20, 1, 1, 80, 30, 20),
}  # fmt: skip
CAPACITY = "batch:gpus=4,accel:gpus=4,batch:memory=8GiB,accel:memory=8GiB"
POOLS = ("--pools", "batch=8,accel=4", "--capacity", CAPACITY, "--where", "0..",
         "--set", "processors=12")  # fmt: skip
_FEW = ("fcfs_easy", "sjf_easy", "saf_easy", "lxf_easy", "conservative")


def sacct(path):
    """Write what sacct prints for the jobs, and return its path."""
    head = "JobID|User|Partition|State|Submit|Start|End|TimelimitRaw|AllocCPUS|NNodes|AllocTRES"
    lines = [head]
    for name, (partition, submit, cpus, gpus, limit, run, start) in JOBS.items():
        at = [1_700_000_000 + 60 * minute for minute in (submit, start, start + run)]
        # Slurm lists a total and its types side by side.
        gres = f",gres/gpu={gpus},gres/gpu:a100={gpus}" if gpus else ""
        tres = f"cpu={cpus},mem=1G{gres}"
        times = "|".join(map(str, at))
        number = 100 + ord(name)
        lines.append(f"{number}|ann|{partition}|COMPLETED|{times}|{limit}|{cpus}|1|{tres}")
    path.write_text("\n".join(lines) + "\n")
    return path


def starts(page, policy):
    """Return the starts in minutes by job."""
    found = page.jobs(policy)
    return dict(zip(list(JOBS), (found.sort("job")["start_s"] // 60).to_list(), strict=True))


@pytest.mark.slow
def test_a_log_of_two_partitions_with_gpus_is_scheduled_as_by_hand(tmp_path):
    page = Answer(
        sacct(tmp_path / "jobs.txt"), tmp_path / "out", *POOLS, "--only-rule", *_FEW, "--shake", 0
    )
    by_hand = {name: job[-1] for name, job in JOBS.items()}
    for policy in ("recorded", "fcfs_easy", "sjf_easy", "lxf_easy", "conservative"):
        assert starts(page, policy) == by_hand, policy
    schedule = read_schedule(page.out / "jobs" / "fcfs_easy.parquet")
    assert schedule.facts["machine"] == "pool"
    assert schedule.facts["capacity"] == {"processors": 12, "gpus": 8, "memory": 16_384}
    gpus = dict(schedule.jobs.select("name", "gpus").rows())
    assert gpus == {str(100 + ord(name)): job[3] for name, job in JOBS.items()}
    assert schedule.facts["epoch"] == 1_700_000_000
    assert not exceeded(schedule)
    # By area, J is before H when G ends: 60 x 1 processor for 40 x 4.
    assert starts(page, "saf_easy") == {**by_hand, "J": 100, "H": 160}
    stops = page.json["nearness"]["stopped"]
    # GPUs alone stop C from 10 to 20 and from 60 to 80, D from 60 to 130, and J until 100. From 20
    # to 60 no processor is free either. Processors stop H for 95 min, and then J for 40.
    waited = 70 + 110 + 95 + 130
    assert stops == pytest.approx({
        "gpus": (10 + 20 + 70 + 90) / waited, "processors": (95 + 40) / waited,
        "several": (40 + 40) / waited,
    })  # fmt: skip
    text = page.first
    assert "12 processors, 8 GPUs and 16 GiB of memory" in text
    assert "Nodes are not simulated: a job starts when enough processors, GPUs and memory" in text
    assert re.search(r"What stops the waiting jobs of the log: \d+ % by GPUs alone", text)
    assert "Jobs with 4 or more GPUs on a node have 37 % of the GPU-seconds" in text
    codes = {caveat["code"] for caveat in page.json["disqualifiers"]}
    assert not codes & {"gpus", "unknown_asks"}  # a list without GPUs is one of none
    bounds = page.json["lower_bounds"]
    assert bounds["wait_lower_bound"] <= page.mean("fcfs_easy", "mean_wait_s")


@pytest.mark.nightly
@pytest.mark.parametrize("world", ["gpus", "types", "pools"])
def test_every_golden_start_through_the_command(world, tmp_path):
    folder = require_traces("../golden/resources")
    jobs, settings = golden_jobs(folder), golden_settings(folder, world)
    save_workload(workload_of(jobs, 100), tmp_path / "log")
    pools = settings.get("pools") or {"": settings["capacity"]}
    options = ["--where", f"{-min(job['submit'] for job in jobs)}..", "--shake", 0]
    if "pools" in settings:
        options += ["--pools", ",".join(f"{name}={of['processors']}" for name, of in pools.items())]
    for pool, of in pools.items():
        for name, amount in list(of.items())[1:]:
            unit = "MiB" if name == "memory" else ""
            options += ["--capacity", f"{pool}{':' if pool else ''}{name}={amount}{unit}"]
    page = Answer(tmp_path / "log", tmp_path / "out", "--only-rule", *_FEW, *options)
    golden = pl.read_csv(folder / f"starts_{world}.csv", infer_schema_length=None)
    summary = pl.read_csv(folder / "summary.csv").filter(world=world)
    first = -min(job["submit"] for job in jobs)
    for policy in _FEW:
        found = page.jobs(policy)
        number = [jobs[row]["job"] for row in found["job"]]
        right = dict(zip(golden["job"], golden[policy], strict=True))
        assert [right[one] for one in number] == (found["start_s"] - first).to_list()
        row = summary.filter(policy=policy).row(0, named=True)
        for metric in page.table()["metric"].unique():
            if row.get(metric) is not None:
                assert page.mean(policy, metric) == pytest.approx(row[metric], rel=1e-9), metric
    for name, bound in page.json["lower_bounds"].items():
        assert bound == pytest.approx(row[name], rel=1e-9), name


def test_a_capacity_of_no_pool_is_refused_before_the_log_is_read(tmp_path, capsys):
    log = sacct(tmp_path / "jobs.txt")
    assert main(["whatif", str(log), *POOLS[:2], "--capacity", "bach:gpus=4"]) == 2
    assert "unknown pool of --capacity 'bach'; did you mean 'batch'" in capsys.readouterr().err


@pytest.mark.slow
def test_forecasts_of_starts_are_refused_for_a_recipe_with_gpus(tmp_path, capsys):
    log = sacct(tmp_path / "jobs.txt")
    settings = ('config.resources=["processors", "gpus"]', "config.capacity={gpus=4}")
    overrides = [word for setting in settings for word in ("--set", setting)]
    asked = ["decide", "fcfs_easy", "--recipe", "queue-kth-v1", *overrides, "--starts", str(log)]
    assert main(asked) == 2
    assert "--starts plays processors of one machine alone" in capsys.readouterr().err
