"""Reserved cores on a grid: a bill by hand, against a plain count, and as GAIA's simulator."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from hindcast.flows.papers.gaia.cells import FIRST_HOUR, HOURS, ZONE
from hindcast.flows.papers.gaia.protocol import read_jobs
from hindcast.flows.papers.gaia.simulator import ON_DEMAND, RESERVED_RATE, Policy, play
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.testing import uniform
from hindcast.pipeline.traces.hourly.series import CARBON, read_series
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.heuristics.deferrable import HEURISTICS
from tests.conftest import require_traces
from tests.pipeline.scenarios.deferrable.small_logs import log_of

SCENARIO = load_scenario("deferrable")
HOUR_OF_2022 = 455832  # its first, since 1970
CONFIG = DeferrableConfig(
    jobs="log", horizon=24, short_wait=3.0, long_wait=12.0, reserved=2, on_demand_price=1.0
)


def episode(config: DeferrableConfig, workload: Workload, objective: str, choose: Any) -> Any:
    """Play the first window; return its outcomes, its environment and its total reward."""
    environment = CompiledEnvironment(SCENARIO, config, objective, workload, 0)
    instance = SCENARIO.instance(config, objective, workload, 0, np.random.default_rng(0))
    observation, over, total = environment.begin(instance), False, 0.0
    while not over:
        step = environment.step(choose(observation, environment))
        observation, over, total = step.observation, step.terminated, total + step.reward
    return environment.outcome(), environment, total


def by(rule: str) -> Any:
    """Return the choices of a rule."""
    return lambda observation, _: int(
        np.argmax(
            np.where(observation.feasible, HEURISTICS[rule].scores(observation), -np.inf)
        )
    )  # fmt: skip


@pytest.mark.parametrize("decide", ["slot", "start"])
def test_a_bill_by_hand(decide: str) -> None:
    """Two reserved cores at .4: A has both, B is on demand for an hour, C gets one that A left.

    The fourth job, of three cores for half an hour, never fits them.
    """
    h = 3600.0
    workload = log_of([0, 0, 2 * h, 23 * h], [2 * h, h, 3 * h, h / 2], [2, 1, 1, 3])
    config = dataclasses.replace(CONFIG, decide=decide)
    outcomes, environment, total = episode(config, workload, "price", by("now"))
    slots = environment._ints[m.HORIZON]
    assert outcomes["money"] == pytest.approx(0.4 * 2 * slots + 1.0 + 1.5)
    assert total == pytest.approx(outcomes["total_reward"]) == pytest.approx(-outcomes["money"])
    assert outcomes["reserved_use"] == pytest.approx((4.0 + 3.0) / (2 * slots))
    assert outcomes["money_saved_per_mwh"] == pytest.approx(0.0, abs=1e-6)
    assert outcomes["bound"] == pytest.approx(-(0.4 * 2 * slots + 1.5))


def test_reserved_first_starts_what_fits_and_waits_else() -> None:
    """Of eight jobs of an hour on one core, two start in every hour at the latest."""
    config = dataclasses.replace(CONFIG, forecast="perfect", short_wait=12.0)
    workload = log_of([0] * 8 + [86000.0], [3600.0] * 8 + [60.0], [1] * 9)
    outcomes, environment, _ = episode(config, workload, "carbon", by("reserved_first"))
    start = m.block(environment._ints, m.START_AT, 9)
    assert all((start[:8] <= slot).sum() >= min(2 * (slot + 1), 8) for slot in range(12))
    waited, *_ = episode(config, workload, "carbon", by("lowest_window"))
    assert outcomes["money"] < waited["money"]
    assert outcomes["reserved_use"] > waited["reserved_use"]


@pytest.mark.parametrize("objective", ["carbon", "price", "both"])
@pytest.mark.parametrize(
    "change",
    [{}, {"decide": "start"}, {"grid_capacity": "constant", "capacity": 12.0}, {"pausable": True}],
    ids=str,
)
def test_the_bill_is_that_of_a_plain_count(change: dict[str, Any], objective: str) -> None:
    """Random play: whole jobs on reserved cores that are free, in the order of their starts."""
    rng = np.random.default_rng(3)
    count = 60
    submit = np.sort(rng.uniform(0, 24 * 3600, count)).round()
    run = (rng.exponential(3 * 3600.0, count) + 60).round()
    cores = rng.integers(1, 6, count)
    workload = log_of([*submit, 86399.0], [*run, 60.0], [*cores, 1])
    config = dataclasses.replace(CONFIG, reserved=9, slot_s=1800.0, horizon=48, **change)

    def choose(observation: Any, _: Any) -> int:
        waits = config.decide == "slot" and rng.random() < 0.5
        return len(observation.feasible) - 1 if waits else uniform(observation, rng)

    outcomes, environment, total = episode(config, workload, objective, choose)
    slots, n = int(environment._ints[m.HORIZON]), count + 1
    assert total == pytest.approx(outcomes["total_reward"], rel=1e-9)
    assert total <= outcomes["bound"] + 1e-9
    assert 0.0 < outcomes["reserved_use"] <= 1.0
    assert outcomes["money"] >= 0.4 * 9 * slots / 2
    if config.pausable:
        return
    start, duration = (m.block(environment._ints, at, n) for at in (m.START_AT, m.DURATION_AT))
    hours, size = np.array([*run, 60.0]) / 3600, np.array([*cores, 1])
    flags = environment._floats[int(environment._floats[f.ON_RESERVED_AT]) :][:n]
    order = np.lexsort((flags == 0.0, start))
    on_demand = plain_on_demand(start[order], start[order] + duration[order], size[order], 9)
    paid = 0.4 * 9 * slots * 0.5 + float((hours * size)[order][on_demand].sum())
    assert outcomes["money"] == pytest.approx(paid)
    used = (np.minimum(hours, (slots - start) * 0.5) * size)[order][~on_demand].sum()
    assert outcomes["reserved_use"] == pytest.approx(used / (9 * slots * 0.5))


def plain_on_demand(start: Any, free: Any, cores: Any, reserved: int) -> np.ndarray:
    """Return which jobs, in the order of their starts, find too few reserved cores.

    `free` is the time from which the cores of a job can be used again.
    """
    on_demand = np.ones(len(start), bool)
    for job, time in enumerate(start):
        used = cores[:job][~on_demand[:job] & (free[:job] > time)].sum()
        on_demand[job] = used + cores[job] > reserved
    return on_demand


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        Policy("carbon", "oracle", "0x0", 9),
        Policy("carbon", "cst_average", reserved=9),
        Policy("carbon-cost", "cst_average", reserved=9),
        Policy("suspend-resume", "oracle", reserved=9),
    ],
    ids=["NoWait", "Carbon-Time", "RES-First-Carbon-Time", "Wait AWhile"],
)
def test_a_week_of_gaia_has_its_carbon_and_its_bill(policy: Policy) -> None:
    """The starts of its simulator, in slots of 5 s: equal carbon, equal core-hours on demand.

    Its reserved cores are free a tick after a job has ended, ours in the slot of the end, so the
    plain count is made in both ways.
    """
    jobs = read_jobs(require_traces("grids/gaia_pai_1k.csv"))
    path = require_traces("grids/carbon_2022.parquet")
    x = read_series(path).only(ZONE).values(CARBON)[FIRST_HOUR : FIRST_HOUR + HOURS]
    of = play(jobs, x, policy)
    cores, last = jobs.cores[of.job], int(of.start.max())
    begin_s = (HOUR_OF_2022 + FIRST_HOUR) * 3600
    workload = log_of(of.start * 5, of.length * 5, cores, begin_s=begin_s)
    config = DeferrableConfig(
        jobs="log", horizon=last + 1, slot_s=5.0, series=str(path), zone=ZONE, align="calendar",
        short_wait=0.0, long_wait=0.0, watts_per_core=1.0, reserved=9, decide="start",
    )  # fmt: skip
    outcomes, environment, _ = episode(config, workload, "carbon", by("now"))
    assert outcomes["carbon_kg"] * 1e3 == pytest.approx(of.carbon.sum(), rel=1e-9)
    slots = int(environment._ints[m.HORIZON])
    for tick, ends, bill in ((1, last, of.bill), (0, slots, outcomes["money"])):
        on_demand = plain_on_demand(of.start, of.start + of.length + tick, cores, 9)
        paid = float((of.length * cores)[on_demand].sum()) + 9 * RESERVED_RATE * ends
        assert bill == pytest.approx(ON_DEMAND * paid, rel=1e-9)
