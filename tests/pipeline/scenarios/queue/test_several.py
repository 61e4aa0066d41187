"""Tests of `queue` with several resources and pools: golden starts, a plain event loop, rows."""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.bounds import bounds_by_resource
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.instances import read_log, select_jobs
from hindcast.pipeline.scenarios.queue.machines import machine_of
from hindcast.pipeline.scenarios.queue.priorities import NUMBER, priority, priority_of_asks
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import begin_episode
from hindcast.pipeline.simulation.memory_rules import play_rule
from hindcast.pipeline.testing import check_scenario
from hindcast.policies.heuristics.queue import HEURISTICS, MEMORY_RULES
from tests.conftest import require_traces
from tests.resource_logs import (
    CAPACITY,
    NAMES,
    drawn,
    golden_jobs,
    golden_settings,
    plain_schedule,
    workload_of,
)

SCENARIO = load_scenario("queue")
OBJECTIVE = "bounded_slowdown"
WORLDS = ("processors", "gpus", "types", "pools")
RULES = ("fcfs_easy", "sjf_easy", "saf_easy", "lxf_easy", "conservative")


def made(log, window=0, **settings):
    config = QueueConfig(allow_wait=True, **settings)
    rng = np.random.default_rng(0)
    return SCENARIO.spec(config, OBJECTIVE), SCENARIO.instance(config, OBJECTIVE, log, window, rng)


def play(spec, instance, rule):
    """Play a rule to the end; return the ints and the outcomes by name."""
    if rule in MEMORY_RULES:
        _, ints, floats = play_rule(SCENARIO, spec, instance, MEMORY_RULES[rule])
        return ints, outcomes_of(spec, ints, floats)
    arrays = begin_episode(spec, instance)
    ints, floats, context, _, rows, feasible = arrays
    outputs, status = np.zeros(k.TERMS + len(spec.reward_terms)), k.RUNNING
    while status == k.RUNNING:
        n = SCENARIO.observe(*arrays)
        scores = np.empty(n)
        HEURISTICS[rule].score(context, rows[:n], feasible[:n], np.zeros(0), scores)
        choice = int(np.argmax(np.where(feasible[:n], scores, -np.inf)))
        status = SCENARIO.step(ints, floats, choice, outputs)
        assert status != k.INFEASIBLE
    return ints, outcomes_of(spec, ints, floats)


def outcomes_of(spec, ints, floats):
    values = np.zeros(len(spec.outcomes))
    SCENARIO.outcome(ints, floats, values)
    return dict(zip((o.name for o in spec.outcomes), values.tolist(), strict=True))


def block(ints, place, size):
    return ints[ints[place] : ints[place] + size].tolist()


@cache
def golden():
    folder = require_traces("../golden/resources")
    jobs = golden_jobs(folder)
    return folder, jobs, workload_of(jobs, 100)


def episode_of(world):
    """Return spec and instance of a world of the golden log, and its jobs."""
    folder, jobs, load = golden()
    settings = golden_settings(folder, world)
    log = read_log(load, machine=machine_of(QueueConfig(**settings)))
    first = int((log.submit < -jobs[0]["submit"]).sum())
    config = QueueConfig(whole=True, jobs=1, starts=(first,), **settings)
    chosen = select_jobs(config, log, 0)
    rows = np.concatenate([chosen.running, chosen.carried, chosen.counted]).astype(int)
    return (*made(load, whole=True, jobs=1, starts=(first,), **settings),
            [jobs[row]["job"] for row in log.row[rows]])  # fmt: skip


def read(path: Path, key: str):
    with path.open() as file:
        return {row[key]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("world", "rule"),
    [("types", "saf_easy"), ("pools", "lxf_easy")]
    + [pytest.param(w, r, marks=pytest.mark.nightly) for w in WORLDS for r in RULES],
)
def test_golden_starts_types_and_outcomes(world, rule):
    folder, _, _ = golden()
    spec, instance, names = episode_of(world)
    ints, outcomes = play(spec, instance, rule)
    starts = read(folder / f"starts_{world}.csv", "job")
    n = len(names)
    assert n == len(starts) == int(ints[m.JOBS])
    found = dict(zip(names, block(ints, m.START_AT, n), strict=True))
    assert found == {int(job): int(row[rule]) for job, row in starts.items()}
    if world != "processors":
        equivalent = dict(zip(names, block(ints, m.EQUIVALENT_AT, n), strict=True))
        assert equivalent == {int(j): int(row["equivalent_milli"]) for j, row in starts.items()}
    if world == "types":
        placed = dict(zip(names, block(ints, m.PLACED_AT, n), strict=True))
        types = {j: row[f"{rule}_type"] for j, row in starts.items() if row[f"{rule}_type"]}
        assert {j: " ab"[placed[int(j)]] for j in types} == types
    with (folder / "summary.csv").open() as file:
        row = next(r for r in csv.DictReader(file) if (r["world"], r["policy"]) == (world, rule))
    for name, value in outcomes.items():
        golden_name = {"utilisation": "utilisation_processors"}.get(name, name)
        if row.get(golden_name):
            assert value == pytest.approx(float(row[golden_name]), rel=1e-9), name
    assert (int(ints[m.COUNTED]), int(ints[m.FIRST_COUNTED])) == (
        int(row["counted"]), int(row["running"]),
    )  # fmt: skip
    counted = block(ints, m.START_AT, n)[int(ints[m.FIRST_COUNTED]) :]
    assert max(counted) == int(row["last_start_s"])


@pytest.mark.parametrize("world", WORLDS[1:])
def test_golden_jobs_that_are_left_out_and_bounds_of_each_resource(world):
    folder, jobs, load = golden()
    log = read_log(load, machine=machine_of(QueueConfig(**golden_settings(folder, world))))
    several = log.several
    assert several is not None
    kept = {jobs[row]["job"] for row in log.row}
    dropped = {int(job) for job in read(folder / f"dropped_{world}.csv", "job")}
    running = {job["job"] for job in jobs if job["running"]}
    assert {job["job"] for job in jobs} - kept - running == dropped
    if world == "pools":
        return  # a bound of its resources is a mean over pools
    _, instance, names = episode_of(world)
    ints, n, names_of_resources = instance.ints, len(names), several.machine.names
    r, width = int(ints[m.FIRST_COUNTED]), len(names_of_resources)
    rows = np.array(block(ints, m.ASK_AT, n * (width + 1))).reshape(n, width + 1)
    held = rows[:r, :width].copy()
    run = np.array(block(ints, m.RUN_AT, n))
    queued = np.maximum(block(ints, m.SUBMIT_AT, n), 0)[r:]
    bounds = bounds_by_resource(
        several.capacity[0], queued, rows[r:, :width].copy(),
        rows[r:, width].copy(), run[r:], np.array(block(ints, m.END_AT, r)), held,
        several.machine.shape,
    )  # fmt: skip
    with (folder / "summary.csv").open() as file:
        row = next(r for r in csv.DictReader(file) if r["world"] == world)
    for name, bound in zip(names_of_resources, bounds[:, 1], strict=False):
        assert bound == pytest.approx(float(row[f"wait_lower_bound_{name}"]), rel=1e-9, abs=1e-9)
    if world == "types":
        assert bounds[-1, 1] == pytest.approx(float(row["wait_lower_bound_gpus"]), rel=1e-9)


def worked_example():
    """Return jobs A to F of the worked example: (submit, processors, gpus, requested, run)."""
    rows = [(0, 4, 2, 100, 80), (0, 1, 0, 60, 60), (10, 2, 3, 50, 50), (20, 2, 2, 90, 90),
            (20, 2, 1, 90, 90), (20, 1, 1, 80, 30)]  # fmt: skip
    keys = ("submit", "processors", "gpus", "requested", "run")
    return workload_of([dict(zip(keys, row, strict=True)) for row in rows], 8)


@pytest.mark.parametrize("rule", RULES)
def test_a_head_without_gpus_is_not_delayed_by_jobs_that_take_spare_ones(rule):
    settings = {"jobs": 6, "warm": False, "resources": ("processors", "gpus")}
    spec, instance = made(worked_example(), **settings, capacity={"gpus": 4})
    ints, _ = play(spec, instance, rule)
    assert block(ints, m.START_AT, 6) == [0, 0, 80, 130, 20, 20]
    assert block(ints, m.EQUIVALENT_AT, 6) == [4000, 1000, 6000, 4000, 2000, 2000]
    if rule != "conservative":  # which lets F wait for the slots of D and E
        ints, _ = play(*made(worked_example(), jobs=6, warm=False), rule)
        assert block(ints, m.START_AT, 6) == [0, 0, 10, 60, 60, 20]


def plain(jobs, form, rule, begin, capacity=CAPACITY, partition=None):
    """Return starts and taken amounts by the plain event loop; wider jobs do not exist in it.

    `begin` is the beginning, and after it the first submission of all jobs.
    """
    first, origin = begin
    listed, asks = [], {}
    for job in jobs:
        ask = [job["processors"], *(job["types"].get(t, 0) for t in "xy"), job["memory"] or 0]
        any_gpus = job["gpus"] - sum(job["types"].values())
        over = any(a > c for a, c in zip(ask, capacity, strict=True)) or (
            any_gpus and all(ask[i] + any_gpus > capacity[i] for i in (1, 2))
        )
        asks[job["number"]] = ask, any_gpus, over
    for job in jobs:
        ask, any_gpus, over = asks[job["number"]]
        runs = job["start"] < first < job["start"] + job["run"] and job["submit"] < first
        if (
            (over and not runs)
            or (job["submit"] < first and job["start"] < first and not runs)
            or (partition not in {None, job["partition"]})
        ):
            continue
        shares = [-(-1000 * a * capacity[0] // c) for a, c in zip(ask, capacity, strict=True)]
        equivalent = max(shares) if not any_gpus else min(
            max(*shares, -(-1000 * (ask[i] + any_gpus) * capacity[0] // capacity[i]))
            for i in (1, 2) if runs or ask[i] + any_gpus <= capacity[i])  # fmt: skip
        listed.append({
            "number": job["number"], "submit": job["submit"] - first, "run": job["run"],
            "requested": job["requested"], "ask": ask, "any": any_gpus, "e": equivalent,
            "start": job["start"] - first if runs else None, "logged": job["start"] - first,
        })  # fmt: skip

    def key(job, t):
        r = job["run"] if form == "clairvoyant" else job["requested"]
        p = float(max(r, 10))
        n, s = job["ask"][0], float(1 + job["submit"] - origin)
        return priority_of_asks(NUMBER[rule], t - job["submit"], r, n, job["e"], s, p, p)

    return plain_schedule(listed, capacity, (1, 2), key, form)


_EASY = ("fcfs", "sjf", "ljf", "smallest", "largest", "saf", "laf", "lxf", "wfp3", "f3")
PLAIN = [("easy", rule) for rule in _EASY]
PLAIN += [("greedy", "saf"), ("strict", "lxf"), ("strict", "saf"), ("conservative", "fcfs"),
          ("clairvoyant", "saf"), ("clairvoyant", "lxf"), ("recorded", "fcfs")]  # fmt: skip


def name_of(form, rule):
    names = {"strict": rule, "conservative": "conservative", "recorded": "recorded"}
    return names.get(form, f"{rule}_{form}")


def settings_of(jobs, load, settings):
    """Return settings of an episode of the jobs submitted from 0 on, its jobs and beginning."""
    first_submit = min(job["submit"] for job in jobs)
    log = read_log(load, machine=machine_of(QueueConfig(**settings)))
    first = int((log.submit < -first_submit).sum())
    settings = {**settings, "whole": True, "jobs": 1, "starts": (first,)}
    chosen = select_jobs(QueueConfig(**settings), log, 0)
    numbers = log.row.tolist() + (
        log.several.too_wide.row.tolist() if log.several and log.several.too_wide else []
    )
    order = np.concatenate([chosen.running, chosen.carried, chosen.counted]).astype(int)
    return settings, [numbers[at] for at in order], chosen.now + first_submit


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(s, marks=pytest.mark.nightly) for s in range(2, 60))]
)
def test_starts_and_types_equal_those_of_a_plain_event_loop(seed):
    jobs = drawn(seed)
    load = workload_of(jobs, 12)
    settings, numbers, first = settings_of(jobs, load, {
        "resources": NAMES, "capacity": dict(zip(NAMES, CAPACITY, strict=True)),
    })  # fmt: skip
    for form, rule in PLAIN if seed else PLAIN[::3]:
        spec, instance = made(load, **settings)
        ints, _ = play(spec, instance, name_of(form, rule))
        found = dict(zip(numbers, block(ints, m.START_AT, len(numbers)), strict=True))
        expected = plain(jobs, form, rule, (first, int(ints[m.FIRST_SUBMIT])))
        assert found == {n: start for n, (start, _) in expected.items()}, (form, rule)
        placed = dict(zip(numbers, block(ints, m.PLACED_AT, len(numbers)), strict=True))
        named = {job["number"]: job["types"] for job in jobs}
        for number, kind in placed.items():
            if kind:
                taken = expected[number][1]
                assert taken[kind] > named[number].get("?xy"[kind], 0)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.nightly) for s in range(1, 20))]
)
def test_pools_are_separate_machines_with_one_clock(seed):
    jobs = drawn(seed, 80, ("p", "q"))
    capacities = {"p": CAPACITY, "q": (9, 3, 2, 30)}
    load = workload_of(jobs, 21)
    settings, numbers, first = settings_of(jobs, load, {"resources": NAMES, "pools": {
        name: dict(zip(NAMES, of, strict=True)) for name, of in capacities.items()
    }})  # fmt: skip
    for form, rule in PLAIN if seed else PLAIN[::4]:
        spec, instance = made(load, **settings)
        ints, _ = play(spec, instance, name_of(form, rule))
        found = dict(zip(numbers, block(ints, m.START_AT, len(numbers)), strict=True))
        expected = {}
        for name, of in capacities.items():
            begin = first, int(ints[m.FIRST_SUBMIT])
            expected |= plain(jobs, form, rule, begin, of, name)
        assert found == {n: start for n, (start, _) in expected.items()}, (form, rule)


BY_COLUMNS = {"random_linear", "random_logs"}  # draw a weight for each column


@pytest.mark.parametrize("rule", [r for r in (*HEURISTICS, *MEMORY_RULES) if r not in BY_COLUMNS])
def test_processors_alone_in_one_pool_start_as_they_do_without_pools(rule):
    jobs = [dict(job, processors=min(job["processors"], 12)) for job in drawn(3, 40)]
    load = workload_of(jobs, 12)
    found = []
    for settings in ({}, {"pools": {"p": {"processors": 12}}}):
        spec, instance = made(load, jobs=25, follow=8, run_times=True, starts=(7,), **settings)
        ints, outcomes = play(spec, instance, rule)
        found.append((block(ints, m.START_AT, int(ints[m.JOBS])), outcomes))
    assert found[0] == found[1]


def test_rules_of_area_have_equivalent_processors_and_the_others_processors():
    for rule, number in NUMBER.items():
        same = (number, 100.0, 50, 3, 3000, 7.0, 20.0, 0.5)
        one = priority(number, 100.0, 50.0, 3.0, 7.0, 20.0, 0.5)
        assert priority_of_asks(*same) == one
        more = priority_of_asks(number, 100.0, 50, 3, 4500, 7.0, 20.0, 0.5)
        has_area = "area" in rule or rule in {"saf", "laf", "sapf", "aged_similar", "wsept",
                                              "aged_expected"}  # fmt: skip
        assert (more != one) == (has_area and rule != "steady_area"), rule


@pytest.mark.slow
def test_the_scenario_conforms_with_types_and_with_pools():
    for settings, partitions in (
        ({"capacity": dict(zip(NAMES, CAPACITY, strict=True))}, ("p",)),
        ({"pools": {p: dict(zip(NAMES, CAPACITY, strict=True)) for p in "pq"}}, ("p", "q")),
    ):
        config = QueueConfig(jobs=10, follow=6, resources=NAMES, allow_wait=True, **settings)

        def instance(number, config=config, partitions=partitions):
            load = workload_of(drawn(number, 50, partitions), 12)
            return SCENARIO.instance(config, OBJECTIVE, load, 1, np.random.default_rng(0))

        names = ["saf_easy", "lxf", "aged_area_easy", "fcfs_easy_sjbf"]
        rules = {name: HEURISTICS[name] for name in names}
        check_scenario(SCENARIO, config, OBJECTIVE, instance, rules, episodes=2)
