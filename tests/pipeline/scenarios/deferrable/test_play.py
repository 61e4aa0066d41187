"""Tests of `deferrable` under random play, compared with separate bookkeeping."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.testing import uniform
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload

SCENARIO = load_scenario("deferrable")
NOTHING = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
CONFIG = DeferrableConfig(
    horizon=40, jobs_per_slot=4.0, capacity=20.0, longest_notice=6, duration_case=1,
    fixed_share=0.3, capacity_noise=0.2, scale_capacity=False,
)  # fmt: skip


def job_arrays(instance):
    n = int(instance.ints[m.JOBS])
    places = (m.CORES_AT, m.DURATION_AT, m.EARLIEST_AT, m.LATEST_AT, m.SUBMITTED_AT)
    return [m.block(instance.ints, at, n).copy() for at in places]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("setting", ["deferrable", "realtime"])
def test_random_play_keeps_every_rule_of_the_problem(seed, setting):
    """Jobs start in their windows, once, within the capacity; bookkeeping and outcomes agree."""
    config = dataclasses.replace(CONFIG, setting=setting)
    rng = np.random.default_rng(seed)
    environment = CompiledEnvironment(SCENARIO, config, "revenue", NOTHING, 0)
    instance = SCENARIO.instance(config, "revenue", NOTHING, 0, rng)
    cores, duration, earliest, latest, submitted = job_arrays(instance)
    capacity = m.block(instance.ints, m.CAPACITY_AT, config.horizon)
    observation = environment.begin(instance)
    start = np.full(len(cores), -1)
    slot, over, terms, total = 0, False, np.zeros(4), 0.0
    while not over:
        running = (start >= 0) & (start + duration > slot)
        pending = (start < 0) & (submitted <= slot) & (latest >= slot)
        shown = observation.candidates
        assert sorted(shown[shown[:, 6] == 1, 10]) == np.flatnonzero(running).tolist()
        startable = np.flatnonzero(pending & (earliest <= slot))
        assert shown[shown[:, 7] == 1, 10].tolist() == startable.tolist()
        future = np.flatnonzero(pending & (earliest > slot))
        assert shown[shown[:, 8] == 1, 10].tolist() == future.tolist()
        free = capacity[slot] - cores[running].sum()
        fits = observation.feasible[shown[:, 7] == 1]
        assert fits.tolist() == (cores[startable] <= free).tolist()
        freed = [cores[running & (start + duration == slot + k)].sum() for k in range(1, 9)]
        assert observation.context[8:16].tolist() == freed
        assert observation.context[7] == free
        choice = uniform(observation, rng)
        closes = choice == len(observation.feasible) - 1
        step = environment.step(choice)
        if closes:
            over_capacity = max(0, cores[running].sum() - capacity[slot])
            assert step.terms.tolist() == [-10 * over_capacity, 0, 0, -10 * over_capacity]
            assert step.elapsed_s == 3600.0
            slot += 1
        else:
            job = int(shown[choice, 10])
            assert start[job] < 0
            start[job] = slot
            late = slot - earliest[job]
            work = cores[job] * duration[job]
            assert 0 <= late <= latest[job] - earliest[job]
            assert step.terms.tolist() == [work - 2 * late, work, -2 * late, 0]
            assert step.elapsed_s == 0.0
        assert step.observation.time_s == slot * 3600.0
        terms, total = terms + step.terms, total + step.reward
        observation, over = step.observation, step.terminated
    outcome = environment.outcome()
    assert slot == config.horizon
    assert total == outcome["total_reward"] == terms[0]
    assert terms[1] == outcome["utilisation"] == (cores * duration)[start >= 0].sum()
    assert terms[2] == outcome["delay_penalty"]
    assert terms[3] == outcome["violation_penalty"]
    assert outcome["started"] == (start >= 0).sum()
    expired = (start < 0) & (latest < config.horizon - 1)
    assert outcome["expired"] == expired.sum()
    assert outcome["started"] + outcome["expired"] + outcome["waiting_at_end"] == len(cores)
    occupied = [
        cores[(start >= 0) & (start <= t) & (start + duration > t)].sum()
        for t in range(config.horizon)
    ]
    assert outcome["capacity_used"] == pytest.approx(sum(occupied) / capacity.sum())
    assert outcome["total_reward"] <= outcome["upper_bound"]


def test_generated_jobs_keep_their_distributions():
    """Arrivals, cores, durations, windows and notice of 20 weeks are within 4 errors each."""
    config = DeferrableConfig()
    weeks = [
        SCENARIO.instance(config, "revenue", NOTHING, w, np.random.default_rng([5, w]))
        for w in range(20)
    ]
    cores, duration, earliest, latest, submitted = map(
        np.concatenate, zip(*(job_arrays(week) for week in weeks), strict=True)
    )
    n = len(cores)
    assert abs(n - 20 * 168 * 8.5) < 4 * np.sqrt(20 * 168 * 8.5)
    for values, levels, shares in (
        (cores, (1, 2, 4, 8), (0.51, 0.37, 0.08, 0.04)),
        (duration, (1, 2, 3, 4, 6, 8), (0.6, 0.25, 0.1, 0.05, 0.0, 0.0)),
    ):
        for level, share in zip(levels, shares, strict=True):
            error = np.sqrt(share * (1 - share) / n)
            assert abs((values == level).mean() - share) <= 4 * error
    window, notice = latest - earliest, earliest - submitted
    assert abs((window == 0).mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / n)
    assert set(window) == set(range(11))
    assert (submitted >= 0).all()
    settled = notice[earliest >= 24]
    assert set(settled) == set(range(25))
    assert abs(settled.mean() - 12) < 4 * np.sqrt(52 / len(settled))
    capacity = np.concatenate([m.block(week.ints, m.CAPACITY_AT, 168) for week in weeks])
    assert abs(capacity.mean() - 26) < 0.6


@pytest.mark.parametrize(
    ("change", "factor"),
    [
        ({"core_case": 2}, 1.984),
        ({"core_case": 3}, 1.376),
        ({"duration_case": 1}, 2.5),
        ({"duration_case": 2}, 1.531),
    ],
)
def test_capacity_grows_with_the_mean_work_of_the_case(change, factor):
    from hindcast.pipeline.scenarios.deferrable.instances import draw_capacity

    base = draw_capacity(DeferrableConfig(), np.random.default_rng(0))
    case = draw_capacity(DeferrableConfig(**change), np.random.default_rng(0))
    rounding = 0.5 + 0.5 / factor
    np.testing.assert_allclose(case / factor, base, atol=rounding + 0.02)
