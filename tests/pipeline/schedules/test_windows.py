"""Schedules of windows: outcomes that are recomputed from them are those of the evaluation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.evaluate import Job, evaluate, make_job
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.schedules.schedule import Schedule, read_schedule, write_schedule
from hindcast.pipeline.schedules.windows import (
    TABLES,
    require_schedules,
    schedule_window,
    whole_facts,
)
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.workloads.schema import Provenance, Workload
from hindcast.policies.entrants import entrants
from tests.held_amounts import exceeded
from tests.resource_logs import CAPACITY, NAMES, drawn, workload_of

# recipe -> settings, policies that draw nothing and one that draws
_CASES = {
    "queue-lublin1-v1": (["config.jobs=64", "config.follow=30"],
                         ["fcfs_easy", "saf_easy", "sjf_clairvoyant", "random"]),
    "binpack-synthetic-v1": (["config.jobs_per_window=8"],
                             ["tetris", "first_fit", "rollout", "random"]),
    "deferrable-base-v1": ([], ["fifo", "tetris", "random"]),
    "slots-demo-v1": ([], ["sjf_reserve", "packer_now", "random"]),
    "gpupack-families-v1": ([], ["fgd", "best_fit", "random"]),
    "multicluster-uniform-v1": (["config.applications=60"], ["sf_e", "sf_e@rollout", "random"]),
    "thermal-default-v1": (["config.jobs=150"], ["min_heat", "earliest_start", "random"]),
}  # fmt: skip


def _mean(of: pl.DataFrame, value: pl.Expr) -> float:
    return float(of.select(value.mean()).item() or 0.0)


def _queue(schedule: Schedule, _tasks: pl.DataFrame) -> dict[str, float]:
    of = schedule.jobs.filter("counted")
    return {
        "mean_wait_s": _mean(of, pl.col("wait_s")),
        "max_wait_s": of["wait_s"].max(),
        "mean_bounded_slowdown": _mean(of, pl.col("bounded_slowdown")),
        "starts": schedule.jobs.filter(pl.col("start_s") >= schedule.facts["from_s"]).height,
    }


def _binpack(schedule: Schedule, tasks: pl.DataFrame) -> dict[str, float]:
    begin, jobs = schedule.facts["from_s"], schedule.jobs
    duration = jobs.select(pl.lit(tasks["duration_s"]).gather("job").alias("run"))["run"]
    length = jobs["end_s"].max() - begin
    of_tasks = jobs.with_columns(run=duration).group_by("job").agg(
        pl.col("end_s").max(), pl.col("start_s", "eligible_s").min(), pl.col("run").first()
    )  # fmt: skip
    work = (jobs["processors"] * duration).sum()
    taken, run = pl.col("end_s") - pl.col("eligible_s"), pl.col("run")
    return {
        "makespan_s": length,
        "mean_completion_s": _mean(of_tasks, taken),
        "mean_slowdown": _mean(of_tasks, taken / run),
        "mean_slowdown_from_start": _mean(of_tasks, (pl.col("end_s") - pl.col("start_s")) / run),
        "cpu_utilisation": work / (schedule.facts["capacity"]["processors"] * length),
    }


def _deferrable(schedule: Schedule, _tasks: pl.DataFrame) -> dict[str, float]:
    of = schedule.jobs.drop_nulls("start_s")
    return {
        "started": of.height,
        "mean_delay_slots": _mean(of, pl.col("wait_s")) / 3600,
        "utilisation": (of["processors"] * (of["end_s"] - of["start_s"])).sum() / 3600,
        "capacity": sum(amount for _, amount in _by_slot(schedule)),
    }


def _by_slot(schedule: Schedule) -> list[tuple[float, int]]:
    levels = schedule.facts["levels"]["processors"]
    slots = np.arange(schedule.facts["from_s"], schedule.facts["to_s"], 3600.0)
    at = np.searchsorted([since for since, _ in levels], slots, side="right") - 1
    return [(slot, levels[i][1]) for slot, i in zip(slots, at, strict=True)]


def _slots(schedule: Schedule, _tasks: pl.DataFrame) -> dict[str, float]:
    of, step = schedule.jobs.filter("counted"), 1.0
    run, taken = pl.col("end_s") - pl.col("start_s"), pl.col("end_s") - pl.col("eligible_s")
    amounts = (pl.col("processors") + pl.col("memory")) * run
    steps = schedule.facts["to_s"] / step
    return {
        "mean_slowdown": _mean(of, taken / run),
        "mean_completion_s": _mean(of, taken),
        "time_steps": steps,
        "utilisation": of.select(amounts.sum()).item()
        / (2 * schedule.facts["capacity"]["memory"] * steps),
    }


def _gpupack(schedule: Schedule, _tasks: pl.DataFrame) -> dict[str, float]:
    jobs, total = schedule.jobs, schedule.facts["capacity"]["gpus"]
    held = [
        jobs.filter((pl.col("start_s") <= now) & (pl.col("end_s") > now))["gpus"].sum()
        for now in range(jobs.height)
    ]
    refused = jobs.filter(pl.col("start_s").is_null())["gpus"].sum()
    return {
        "placed": 100 * jobs.drop_nulls("start_s")["gpus"].sum() / total,
        "allocated_peak": 100 * max(held) / total,
        "refused": 100 * refused / jobs["gpus"].sum(),
    }


def _multicluster(schedule: Schedule, _tasks: pl.DataFrame) -> dict[str, float]:
    run = pl.col("end_s") - pl.col("start_s")
    runs = schedule.jobs.group_by("job", "eligible_s").agg(
        pl.col("end_s").max(), run.first().alias("run")
    )
    delays = runs.with_columns(
        delay=(pl.col("end_s") - pl.col("eligible_s")) / pl.col("run") - 1
    )  # fmt: skip
    per_application = delays.group_by("job").agg(pl.col("delay").mean())
    area = schedule.jobs.select((pl.col("processors") * run).sum()).item()
    length = schedule.facts["to_s"]
    return {
        "runs": runs.height,
        "ajdr_percent": 100 * _mean(per_application, pl.col("delay")),
        "length_s": length,
        "utilisation": area / (schedule.facts["capacity"]["processors"] * length),
    }


def _thermal(schedule: Schedule, _tasks: pl.DataFrame) -> dict[str, float]:
    of, facts = schedule.jobs.drop_nulls("start_s"), schedule.facts
    used = np.zeros((len(facts["machines"]["processors"]), int(facts["to_s"])))
    for job in of.iter_rows(named=True):
        used[job["machine"][0], int(job["start_s"]) : int(job["end_s"])] += job["processors"]
    share = used / facts["machines"]["processors"][0]
    return {
        "placed": of.height,
        "rejected": schedule.jobs.height - of.height,
        "mean_wait": _mean(of, pl.col("wait_s")),
        "energy": float((0.5 * share + 0.5 * (share > 0)).sum()),
    }


_OUTCOMES = {
    "queue": _queue, "binpack": _binpack,
    "deferrable": _deferrable, "slots": _slots,
    "gpupack": _gpupack, "multicluster": _multicluster, "thermal": _thermal,
}  # fmt: skip


@pytest.fixture(scope="module", params=_CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Return the job of two test windows of a recipe, its entrants, and their scores."""
    settings, names = _CASES[request.param]
    recipe = load_recipe(request.param, [*settings, "evaluate.seeds=2"])
    first = recipe.windows("test")[0]
    recipe = load_recipe(
        request.param, [*settings, "evaluate.seeds=2", f'split.test="{first}..{first + 1}"']
    )
    out = tmp_path_factory.mktemp("evaluation") / "out"
    policies = entrants(recipe, names)
    evaluate(recipe, policies, split="test", out=out)
    return make_job(recipe, "test", out), policies, pl.read_parquet(out / "scores.parquet")


@pytest.mark.slow
def test_outcomes_from_a_schedule_are_those_of_the_evaluation(case, tmp_path):
    job, policies, scores = case
    assert len(job.windows) == 2
    for policy in policies:
        behaviour = policy.behaviour
        for seed in range(2 if behaviour.stochastic else 1):
            schedule = schedule_window(job, behaviour, job.windows[1], seed)
            write_schedule(schedule, tmp_path / "a.parquet")
            schedule = read_schedule(tmp_path / "a.parquet")
            of = scores.filter(
                (pl.col("policy") == behaviour.name) & (pl.col("seed") == seed)
                & (pl.col("window") == job.windows[1])
            )  # fmt: skip
            recomputed = _OUTCOMES[job.scenario.name](schedule, job.workload.tasks)
            told = dict(of.select("metric", "value").rows())
            for name, value in recomputed.items():
                assert value == pytest.approx(told[name], rel=1e-9), (behaviour.name, seed, name)
            assert not exceeded(schedule)
            assert schedule.facts["seed"] == (seed if behaviour.stochastic else None)


_WHOLE = dict(zip(NAMES, CAPACITY, strict=True))
_TWO_POOLS = {"p": _WHOLE, "q": _WHOLE}


@pytest.mark.parametrize("settings", [{"capacity": _WHOLE}, {"pools": _TWO_POOLS}])
@pytest.mark.parametrize("seed", [0, 1])
def test_resources_and_pools_are_held_as_in_the_episode(settings, seed):
    log = workload_of(drawn(seed, partitions=("p", "q")), 24 if "pools" in settings else 12)
    recipe = load_recipe("queue-lublin1-v1")
    config = QueueConfig(jobs=12, follow=4, resources=("processors", "gpus", "memory"), **settings)
    recipe = replace(recipe, config=config, split={"test": range(1, 2)})
    job = Job(recipe, load_scenario("queue"), log, [1], 1, Path("unused"), 1)
    (policy,) = entrants(recipe, ["fcfs_easy"])
    schedule = schedule_window(job, policy.behaviour, 1)
    assert schedule.resources == NAMES
    rng = generator(recipe.seed, "evaluate fcfs_easy", 1, 0)
    episode = run_episode(job.scenario, job.spec, job.instance(1), policy.behaviour, rng)
    told = dict(zip((o.name for o in job.spec.outcomes), episode.outcomes, strict=True))
    for name, value in _queue(schedule, log.tasks).items():
        assert value == pytest.approx(told[name], rel=1e-9), name
    assert not exceeded(schedule)
    jobs, facts = schedule.jobs, schedule.facts
    assert (facts["machine"] == "pool") == ("pools" in settings)
    if "pools" in settings:
        assert set(jobs["partition"]) == {"p", "q"}
        place = jobs.explode("machine").select("partition", "machine").unique().sort("machine")
        assert place.rows() == [("p", 0), ("q", 1)]
    asked = log.tasks[jobs["job"].to_list()]["gpus"].fill_null(0)
    assert (jobs["gpus:x"] + jobs["gpus:y"] == asked.cast(pl.Int64)).all()


@pytest.mark.slow
def test_a_window_that_begins_as_the_log_did_has_its_running_jobs(traces):
    recipe = load_recipe("queue-kth-v1")
    job = make_job(recipe, "test", Path("unused"))
    policy = entrants(recipe, ["fcfs_easy"])[0].behaviour
    schedule = schedule_window(job, policy, job.windows[3])
    begun = schedule.jobs.filter(pl.col("start_s") < schedule.facts["from_s"])
    assert begun.height
    assert not begun["counted"].any()
    assert begun["wait_s"].null_count() == begun.height
    assert schedule.jobs["name"].null_count() == schedule.jobs["user"].null_count() == 0
    assert schedule.jobs["requested_s"].null_count() == 0
    assert schedule.facts["epoch"] is None  # the log does not say when second 0 was
    assert not exceeded(schedule)


def test_the_epoch_is_that_of_the_log_where_the_clock_has_seconds():
    log = Workload(pl.DataFrame(), Provenance("swf", notes=("UnixStartTime: 843456000",)))
    facts = {"capacity": {"processors": 1}}
    assert whole_facts(facts, log)["epoch"] == 843456000.0
    assert whole_facts({**facts, "clock": "step"}, log)["epoch"] is None


def test_every_scenario_with_jobs_is_played():
    assert set(TABLES) == set(_OUTCOMES)
    with pytest.raises(InputError, match="no schedules, expected one of binpack"):
        require_schedules("rlscheduler")
