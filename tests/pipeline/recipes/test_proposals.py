"""Tests of recipes that are proposed for workloads: settings, splits, and what is left out."""

import tomllib

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.loading import parse_recipe
from hindcast.pipeline.recipes.proposals.load import demand, ratio
from hindcast.pipeline.recipes.proposals.plan import ranges
from hindcast.pipeline.recipes.proposals.proposal import propose_recipe, start_of
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.workloads.schema import Provenance, Workload

MONDAY = 1_704_672_000  # 8 January 2024, 00:00 UTC


def workload(n=1000, *, limits=True, memory=True, waits=True, notes=(), gap=600.0, width=8):
    """Return jobs of 1 to 4 processors for an hour each, every `gap` seconds, on a machine of 8."""
    at = np.arange(n)
    columns = {
        "job": at, "task": np.zeros(n, np.int64), "job_id": at.astype(str), "task_id": ["0"] * n,
        "submit_s": at * gap, "duration_s": np.full(n, 3600.0), "cores": 1.0 + at % 4,
        "memory": 0.01 * (1 + at % 3) * memory, "instances": np.ones(n, np.int64),
        "requested_s": np.full(n, 7200.0 if limits else 3600.0), "user": 1 + at % 5,
    }  # fmt: skip
    if waits:
        columns["wait_s"] = np.full(n, 120.0)
    machines = pl.DataFrame(
        {"machine": [0], "machine_id": ["m"], "cores": [float(width)], "memory": [1.0]}
    )
    return Workload(pl.DataFrame(columns), Provenance("made", notes=tuple(notes)), machines)


def with_gpus(log, gpus, memory=None):
    tasks = log.tasks.with_columns(gpus=pl.Series(gpus))
    if memory is not None:
        tasks = tasks.with_columns(memory_mib=pl.Series(memory))
    return Workload(tasks, log.provenance, log.machines)


def test_gpus_and_memory_are_proposed_with_the_most_that_was_held_and_no_capacity():
    """Every third job holds 2 GPUs for an hour from 120 s after its submission."""
    log = with_gpus(workload(4000), [2 * (k % 3 == 0) for k in range(4000)], [100.0] * 4000)
    found = propose_recipe(log, "w", "gpus")
    assert found.scenario == "queue"
    told = next(text for text in found.warnings if "jobs ask for" in text)
    assert "GPUs (4 were held at once) and MiB of memory (600 were held at once)" in told
    assert (
        'resources = ["processors", "gpus", "memory"] and capacity = {gpus = N, memory = N}' in told
    )
    assert "# resources: jobs ask for GPUs" in found.toml
    assert "33% of the work is by jobs with GPUs" in found.suits["binpack"]
    assert recipe_of(found).config.resources == ("processors",)


def test_a_log_without_gpus_has_no_word_of_them():
    found = propose_recipe(with_gpus(workload(4000), [0] * 4000), "w", "none")
    assert not [text for text in found.warnings if "jobs ask for" in text]
    assert "resources" not in found.toml
    assert found.suits["binpack"] == ""


def recipe_of(found):
    return parse_recipe(tomllib.loads(found.toml), "proposed")


def test_demand_counts_an_end_before_a_begin_of_the_same_second():
    """Two jobs after each other need one processor; a third one beside them, two."""
    begin, run = np.array([0, 10, 5]), np.array([10, 10, 10])
    found = demand(begin, run, np.array([1, 1, 1]))
    assert found.times.tolist() == [0, 5, 10, 15, 20]
    assert found.levels.tolist() == [1, 2, 2, 1, 0]
    assert found.peak == 2
    assert found.share_above(1) == 0.5  # 5 to 15 of 0 to 20
    assert found.share_above(1, until=10) == 0.5
    assert found.share_above(2) == 0
    assert ratio(30.0, 2.0, 20.0) == 0.75


@pytest.mark.parametrize("size", [3, 4, 10, 100, 28_480])
def test_splits_follow_each_other_and_have_everything(size):
    parts = list(ranges(size).values())
    assert [i for part in parts for i in part] == list(range(size))
    assert all(parts)


def test_a_log_with_requests_becomes_a_queue_whose_splits_share_no_job():
    """Windows and the jobs that follow them stay within 60, 10 and 30 % of the jobs."""
    log = workload(4000)
    found = propose_recipe(log, "w", "My log")
    recipe = recipe_of(found)
    assert (recipe.id, recipe.scenario, recipe.trace.path) == ("my-log-queue", "queue", "w")
    assert recipe.config.warm
    scenario = load_scenario("queue")
    assert scenario.windows(recipe.config, log) == sum(map(len, recipe.split.values()))
    parts = ranges(4000)
    for name, windows in recipe.split.items():
        for window in windows:
            first = recipe.config.starts[window]
            assert first in parts[name]
            assert first + recipe.config.jobs + recipe.config.follow - 1 in parts[name]
    counted = sum(split.jobs for split in found.plan.splits)
    assert counted + sum(found.plan.left_out.values()) == 4000
    train = found.plan.splits[0]
    # 2.5 processors for an hour every 10 minutes are 15 of 8 processors, all the time.
    assert train.load == pytest.approx(15 / 8, rel=0.01)
    assert train.contended > 0.9
    assert train.wait_h == pytest.approx(120 / 3600)


def test_a_long_log_has_windows_all_over_it():
    found = propose_recipe(workload(60_000), "w", "w")
    recipe = recipe_of(found)
    assert [len(recipe.split[n]) for n in ("train", "validation", "test")] == [96, 16, 48]
    assert recipe.config.starts[95] > 0.96 * 36_000
    assert recipe.config.starts[-1] > 0.97 * 60_000


def test_the_scenario_follows_from_what_the_log_knows():
    assert propose_recipe(workload(), "w", "w").scenario == "queue"
    found = propose_recipe(workload(limits=False), "w", "w")
    assert found.scenario == "binpack"
    assert found.suits["queue"] == "jobs have no requested times"
    found = propose_recipe(workload(limits=False, memory=False), "w", "w")
    assert found.scenario == "deferrable"
    assert found.suits["binpack"] == "tasks have no memory"
    found = propose_recipe(workload(limits=False), "w", "w", "queue")
    assert any("time limit is the run time" in text for text in found.warnings)
    with pytest.raises(InputError, match="queue"):
        propose_recipe(workload(), "w", "w", "queues")


@pytest.mark.parametrize("scenario", ["queue", "binpack", "deferrable"])
def test_every_window_of_a_proposal_can_be_played(scenario):
    log = workload(600, gap=60.0)
    recipe = recipe_of(propose_recipe(log, "w", "w", scenario))
    problem = load_scenario(scenario)
    for windows in recipe.split.values():
        for window in windows:
            rng = np.random.default_rng(window)
            problem.instance(recipe.config, recipe.objective, log, window, rng)


def test_machines_of_binpack_hold_half_of_what_the_median_window_would_use():
    """Every minute a job of 2.5 cores for an hour: 50 jobs use 125 cores after 50 minutes."""
    found = propose_recipe(workload(6000, gap=60.0, limits=False), "w", "w", "binpack")
    config = recipe_of(found).config
    assert config.jobs_per_window == 50
    assert config.machines * config.machine_cores == pytest.approx(62.5, abs=5)
    assert config.machine_memory * config.machines == pytest.approx(0.5 * 50 * 0.02, rel=0.05)
    assert found.plan.splits[0].contended > 0.3


def test_windows_of_deferrable_without_a_job_are_left_out_and_counted():
    """A pause of ten days cuts the log; the longer part is used."""
    log = workload(6000, limits=False, memory=False)
    pause = pl.when(pl.col("job") >= 2000).then(864_000.0).otherwise(0.0)
    log = Workload(
        log.tasks.with_columns(submit_s=pl.col("submit_s") + pause), log.provenance, log.machines
    )
    found = propose_recipe(log, "w", "w")
    recipe = recipe_of(found)
    cut = found.plan.left_out[
        "before or after the longest time without a window that has no job"]  # fmt: skip
    assert 2000 <= cut < 2100
    scenario = load_scenario("deferrable")
    for windows in recipe.split.values():
        for window in (windows[0], windows[-1]):
            rng = np.random.default_rng(0)
            scenario.instance(recipe.config, recipe.objective, log, window, rng)


def test_jobs_that_were_held_arrive_when_they_are_eligible():
    """Of a log in which 2 % of the jobs were held for an hour; 1 % are too few."""
    log = workload(1000)
    for every, arrive in ((50, "eligible"), (100, None)):
        held = log.tasks.with_columns(
            eligible_s=pl.col("submit_s")
            + pl.when(pl.col("job") % every == 0).then(90).otherwise(0)
        )
        found = propose_recipe(Workload(held, log.provenance, log.machines), "w", "w")
        assert found.plan.config.get("arrive") == arrive
        assert recipe_of(found).config.arrive == (arrive or "submit")


def test_warnings_say_what_limits_the_results():
    log = workload(400, waits=False, gap=40_000.0)
    log = Workload(log.tasks.drop("user"), log.provenance, log.machines)
    text = "\n".join(propose_recipe(log, "w", "w").warnings)
    for expected in ("users are unknown", "no wait time is", "nearly idle", "windows: intervals"):
        assert expected in text
    wide = workload(2000, width=3)
    found = propose_recipe(wide, "w", "w")
    assert found.plan.left_out["wider than the machine"] == 500
    assert any("500 jobs (25% of them" in w and "left out" in w for w in found.warnings)
    busier = log.tasks.with_columns(
        cores=pl.when(pl.col("job") >= 280).then(4.0).otherwise(1.0), wait_s=pl.lit(0.0)
    )
    text = "\n".join(
        propose_recipe(Workload(busier, log.provenance, log.machines), "w", "w").warnings
    )
    assert "test offers 4.0" in text
    assert "0.0% of the jobs waited a minute or more" in text


@pytest.mark.parametrize("scenario", ["queue", "binpack", "deferrable"])
def test_a_log_that_is_too_short_is_refused_with_what_is_needed(scenario):
    with pytest.raises(InputError, match="expected at least"):
        propose_recipe(workload(12), "w", "w", scenario)


def test_the_clock_begins_at_the_local_time_of_the_first_second():
    unix = f"UnixStartTime: {MONDAY}"
    found = start_of(workload(notes=[unix, "TimeZoneString: Europe/Berlin"]))
    assert (found.clock_s, found.warning) == (3600, "")
    assert found.text == "Monday, 08 January 2024, 01:00:00, Europe/Berlin"
    assert start_of(workload(notes=[unix]), "America/New_York").clock_s == 604_800 - 5 * 3600
    unknown = start_of(workload(notes=[unix]))
    assert unknown.clock_s == 0
    assert "--time-zone" in unknown.warning
    assert start_of(workload()).clock_s is None
    with pytest.raises(InputError, match="there is no such time zone"):
        start_of(workload(), "Europe/Atlantis")


def test_no_agent_is_trained_where_jobs_do_not_compete():
    idle = propose_recipe(workload(2000, gap=40_000.0), "w", "w")
    assert recipe_of(idle).train.agents == ()
    assert any("no [train]" in text for text in idle.warnings)
    assert recipe_of(propose_recipe(workload(2000), "w", "w")).train.agents
