"""Tests of the run times that a copy of a `queue` episode has for a policy that looks ahead."""

from types import SimpleNamespace

import numpy as np
import pytest

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.instances import read_log, select_jobs
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.policies.registry import resolve
from tests.pipeline.scenarios.queue.test_drawn_run_times import plain_distribution
from tests.pipeline.whatif.test_playing import drawn_log

SCENARIO = load_scenario("queue")
NOT_STARTED = 1 << 40


def config(**changed):
    return QueueConfig(**{"jobs": 60, "follow": 20, "starts": (50,), **changed})


def instance_of(workload, settings):
    return SCENARIO.instance(
        settings, "bounded_slowdown", workload, 0, np.random.default_rng(0)
    )  # fmt: skip


def after(instance, settings, decisions):
    """Return the memory after some decisions of the first feasible row."""
    ints, floats = instance.ints.copy(), instance.floats.copy()
    spec = SCENARIO.spec(settings, "bounded_slowdown")
    context, rows = np.zeros(len(spec.context)), np.zeros((instance.capacity, len(spec.candidates)))
    feasible, outputs = np.zeros(instance.capacity, np.bool_), np.zeros(4)
    for _ in range(decisions):
        n = SCENARIO.observe(ints, floats, context, np.zeros(0, np.uint8), rows, feasible)
        SCENARIO.step(ints, floats, int(np.flatnonzero(feasible[:n])[0]), outputs)
    return ints, floats


def block(ints, at):
    return ints[ints[at] :][: ints[m.JOBS]]


def runs_that_have_ended(log, jobs, ints):
    """Return the runs before the window by the log, and those in it by the simulation."""
    chosen = [*jobs.running, *jobs.carried, *jobs.counted, *jobs.follow]
    before = [i for i in log.by_end if log.start[i] + log.run[i] <= jobs.now]
    inside = block(ints, m.START_AT).copy()
    inside[inside == m.NEVER] = NOT_STARTED
    both = {
        name: np.concatenate([getattr(log, name)[before], getattr(log, name)[chosen]])
        for name in ("user", "cpu", "requested", "run")
    }
    return SimpleNamespace(**both, start=np.concatenate([log.start[before], inside + jobs.now]))


@pytest.mark.parametrize(("seed", "decisions"), [(0, 1), (0, 40), (1, 25), (3, 60)])
def test_a_drawn_run_time_is_the_quantile_of_the_plain_distribution(seed, decisions):
    """Of the log before the window, then the simulation; with unknown users and ties."""
    workload, settings = drawn_log(seed), config()
    log = read_log(workload)
    jobs = select_jobs(settings, log, 0)
    instance = instance_of(workload, settings)
    ints, floats = after(instance, settings, decisions)
    future = instance.futures(np.random.default_rng(seed))
    known, now = runs_that_have_ended(log, jobs, ints), int(ints[m.NOW])
    chosen = [*jobs.running, *jobs.carried, *jobs.counted, *jobs.follow]
    waiting = ints[ints[m.WAITING_AT] :][: ints[m.WAITING]].tolist()
    running = ints[ints[m.BY_END_AT] :][: ints[m.RUNNING]].tolist()
    starts = block(ints, m.START_AT).copy()
    future.replace(ints, floats)
    drawn = block(ints, m.RUN_AT)
    assert waiting
    assert running
    for job in [*waiting, *running]:
        elapsed = now - int(starts[job]) if job in running else 0
        kind = tuple(int(of[chosen[job]]) for of in (log.user, log.cpu, log.requested))
        want = plain_distribution(known, kind, jobs.now + now, elapsed)
        want = want or [(1.01 * elapsed + 30, 0.5), (1.1 * elapsed + 300, 0.5)]
        sums = np.cumsum([weight for _, weight in want])
        at = int(np.searchsorted(sums, future.uniforms[job] * sums[-1], side="right"))
        value = want[min(at, len(want) - 1)][0]
        assert drawn[job] == max(int(np.rint(value)), elapsed + 1)
    ends = block(ints, m.END_AT)[ints[ints[m.BY_END_AT] :][: ints[m.RUNNING]]]
    assert (np.diff(ends) <= 0).all()
    assert (ends > now).all()
    assert ints[m.JOBS] == ints[m.NEXT]


def test_a_future_shows_neither_run_times_nor_jobs_to_come():
    workload, settings = drawn_log(1), config()
    instance = instance_of(workload, settings)
    one, floats = after(instance, settings, 25)
    other, other_floats = one.copy(), floats.copy()
    hidden = np.concatenate([
        one[one[m.WAITING_AT] :][: one[m.WAITING]], np.arange(one[m.NEXT], one[m.JOBS]),
    ])  # fmt: skip
    running = one[one[m.BY_END_AT] :][: one[m.RUNNING]]
    other[other[m.RUN_AT] + hidden] += 777
    for at in (m.RUN_AT, m.END_AT):
        other[other[at] + running] += 1000  # in the same order
    seen = np.concatenate([one[one[m.WAITING_AT] :][: one[m.WAITING]], running])
    for ints, more in ((one, floats), (other, other_floats)):
        instance.futures(np.random.default_rng(0)).replace(ints, more)
    for at in (m.RUN_AT, m.END_AT):
        assert (one[one[at] + seen] == other[other[at] + seen]).all()


@pytest.mark.parametrize("changed", [{"warm": False}, {"kill": True}])
def test_windows_without_a_past_and_with_jobs_that_are_killed_have_futures(changed):
    workload, settings = drawn_log(3), config(**changed)
    instance = instance_of(workload, settings)
    ints, floats = after(instance, settings, 20)
    instance.futures(np.random.default_rng(0)).replace(ints, floats)
    waiting = ints[ints[m.WAITING_AT] :][: ints[m.WAITING]]
    run, requested = (ints[ints[at] + waiting] for at in (m.RUN_AT, m.REQUESTED_AT))
    assert (run >= 1).all()
    assert (run <= requested).all() or "kill" not in changed


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["aged_expected_easy", "sjf_easy"])
def test_a_rule_that_looks_ahead_plays_whole_episodes_alike_in_every_call(rule):
    workload, settings = drawn_log(1), config(run_times=True)
    spec = SCENARIO.spec(settings, "bounded_slowdown")

    def played(name):
        policy = resolve(name, "queue", spec).policy
        instance = instance_of(workload, settings)
        behaviour = Behaviour(name, policy)
        return run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng(0)).outcomes

    ahead = played(f"{rule}@rollout")
    assert ahead.tolist() == played(f"{rule}@rollout").tolist()
    assert ahead.tolist() != played(rule).tolist()
