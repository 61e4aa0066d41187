"""`deferrable` on a grid: books, forced starts, the bound, and no sight beyond the forecast."""

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.grids.starts import Rule, Work, integral, starts
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.bounds import bounds
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.testing import check_scenario, uniform
from hindcast.pipeline.workloads.schema import Provenance, Workload
from hindcast.policies.heuristics import rankable
from hindcast.policies.heuristics.deferrable import HEURISTICS
from tests.pipeline.scenarios.deferrable.grid_windows import (
    GENERATED,
    LOG,
    NOTHING,
    SCENARIO,
    blocks_of,
    instance_of,
    log,
    starts_of,
)


@pytest.mark.parametrize("objective", ["carbon", "price", "both"])
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("decide", ["slot", "start"])
@pytest.mark.parametrize("config", [GENERATED, LOG], ids=["generated", "log"])
def test_books_are_sums_over_minutes(
    config: DeferrableConfig,
    limited: bool,
    objective: str,
    decide: str,
) -> None:  # fmt: skip
    """Random play: rewards, outcomes and starts agree with a plain count of minutes."""
    if limited:
        config = dataclasses.replace(config, grid_capacity="constant", capacity=24.0)
    config = dataclasses.replace(config, waiting_weight=1e-4, late_weight=0.01, decide=decide)
    rng = np.random.default_rng(1)
    instance = instance_of(config, objective)
    workload = log() if config.jobs == "log" else NOTHING
    environment = CompiledEnvironment(SCENARIO, config, objective, workload, 0)
    observation = environment.begin(instance)
    total, over = 0.0, False
    while not over:
        close = len(observation.feasible) - 1
        waits = decide == "slot" and rng.random() < 0.6
        choice = close if waits else uniform(observation, rng)
        step = environment.step(choice)
        total += step.reward
        observation, over = step.observation, step.terminated
    outcomes = environment.outcome()
    n = int(instance.ints[m.JOBS])
    run, _, submitted, _, carbon, price = blocks_of(instance)
    cores, latest = m.block(instance.ints, m.CORES_AT, n), m.block(instance.ints, m.LATEST_AT, n)
    start = starts_of(environment, n)
    assert (start >= m.block(instance.ints, m.EARLIEST_AT, n)).all()
    assert limited or (start <= latest).all()
    assert outcomes["late"] == (start > latest).sum()
    kg = money = waited = 0.0
    for job in range(n):
        seconds = (f.HISTORY + start[job]) * 3600 + np.arange(round(run[job] * 3600))
        power = cores[job] * config.watts_per_core / 1e3
        kg += power * carbon[seconds // 3600].sum() / 3600 / 1e3
        money += power * price[seconds // 3600].sum() / 3600 / 1e3
        waited += cores[job] * (start[job] - submitted[job])
    assert outcomes["carbon_kg"] == pytest.approx(kg, rel=1e-6)
    assert outcomes["money"] == pytest.approx(money, rel=1e-6)
    assert outcomes["core_hours_waited"] == pytest.approx(waited)
    cost = {"carbon": kg, "price": money, "both": 0.1 * kg + money}[objective]
    late = 0.01 * outcomes["late"]
    assert total == pytest.approx(-cost - 1e-4 * waited - late, rel=1e-6)
    assert outcomes["total_reward"] == pytest.approx(total)
    assert total <= outcomes["bound"] + 1e-9
    load = np.zeros(int(instance.ints[m.HORIZON]))
    duration = np.ceil(run - 1e-9).astype(int)
    for job in range(n):
        load[start[job] : start[job] + duration[job]] += cores[job]
    assert outcomes["peak_cores"] == load.max()
    assert not limited or load[:-1].max() <= 24


@pytest.mark.parametrize("capacity", [None, 30])
@pytest.mark.parametrize(
    "rule", ["now", "latest", "lowest_window", "carbon_time", "lowest_window_priced"]
)
def test_a_chosen_start_is_that_of_the_rule_without_a_simulator(
    rule: str, capacity: int | None
) -> None:
    """On whole hours, rules at the submission are those of hindcast.pipeline.grids.starts."""
    config = dataclasses.replace(GENERATED, decide="start", capacity=float(capacity or 0))
    config = dataclasses.replace(config, grid_capacity="constant" if capacity else "unlimited")
    config = dataclasses.replace(config, load_prices=rule.endswith("priced"), load_price=0.7)
    instance = instance_of(config)
    n = int(instance.ints[m.JOBS])
    environment = CompiledEnvironment(SCENARIO, config, "carbon", NOTHING, 0)
    observation, over = environment.begin(instance), False
    while not over:
        scores = HEURISTICS[rule].scores(observation)
        choice = int(np.argmax(np.where(observation.feasible, scores, -np.inf)))
        step = environment.step(choice)
        observation, over = step.observation, step.terminated
    run, known, _, y, *_ = blocks_of(instance)
    names = (m.EARLIEST_AT, m.LATEST_AT, m.CORES_AT)
    earliest, latest, cores = (m.block(instance.ints, at, n) for at in names)
    wait = (latest - earliest).astype(float)
    work = Work(f.HISTORY + earliest.astype(float), run.copy(), known.copy(), wait, cores.copy())
    crowding = 0.7 if config.load_prices and capacity else 0.0
    kind = rule.removesuffix("_priced")
    expected = starts(work, y, Rule(kind, capacity=capacity, crowding=crowding)) - f.HISTORY
    assert starts_of(environment, n).tolist() == expected.tolist()


def test_a_chosen_start_is_paid_at_the_decision() -> None:
    """Each reward is the carbon of the run from the chosen slot, which may be hours ahead."""
    config = dataclasses.replace(LOG, decide="start")
    instance, rng = instance_of(config), np.random.default_rng(5)
    environment = CompiledEnvironment(SCENARIO, config, "carbon", log(), 0)
    observation, over, ahead = environment.begin(instance), False, 0
    run, _, _, _, carbon, _ = blocks_of(instance)
    while not over:
        choice = uniform(observation, rng)
        row = observation.candidates[choice]
        later, job = int(row[f.ROW.until_earliest]), int(row[f.ROW.job])
        begin = f.HISTORY + environment._ints[m.SLOT] + np.array([float(later)])
        grams = integral(carbon, begin, begin + run[job])[0] * row[f.ROW.cores] / 100
        step = environment.step(choice)
        observation, over = step.observation, step.terminated
        assert step.reward == pytest.approx(-grams / 1e3)
        ahead += later > 0
    assert ahead > 10


@pytest.mark.slow
@pytest.mark.parametrize("config", [GENERATED, LOG], ids=["generated", "log"])
def test_priced_columns_are_the_cost_and_a_price_of_running_cores(config: DeferrableConfig) -> None:
    """Slot by slot, promised are the running jobs as far as their lengths are known."""
    config = dataclasses.replace(
        config, load_prices=True, grid_capacity="constant", capacity=24.0, load_price=2.0
    )
    rng = np.random.default_rng(2)
    instance = instance_of(config)
    environment = CompiledEnvironment(SCENARIO, config, "carbon", log(), 0)
    observation, over, checked = environment.begin(instance), False, 0
    y, n = blocks_of(instance)[3], int(instance.ints[m.JOBS])
    while not over:
        rows = observation.candidates
        slot = int(environment._ints[m.SLOT])
        level = y[f.HISTORY + slot - 167 : f.HISTORY + slot + 1].mean()
        load = np.zeros(10_000)
        for row in rows[rows[:, f.ROW.is_running] == 1]:
            start = starts_of(environment, n)[int(row[f.ROW.job])]
            load[: max(int(row[f.ROW.duration]) + start - slot, 1)] += row[f.ROW.cores]
        load[int(environment._ints[m.HORIZON]) - slot :] = 0
        for row in rows[rows[:, f.ROW.is_startable] == 1]:
            slots, run = int(row[f.ROW.duration]), row[f.ROW.run_h]
            price = [
                2.0 * level * sum((load[at : at + slots] / 24.0) ** 4) / run
                for at in range(max(int(row[f.ROW.until_latest]), 0) + 1)
            ]
            assert row[f.ROW.priced_now] == pytest.approx(row[f.ROW.cost_now] + price[0])
            assert row[f.ROW.priced_least] >= row[f.ROW.cost_least] + min(price) - 1e-6
            assert row[f.ROW.priced_least] <= row[f.ROW.priced_now]
            checked += price[0] > 0
        wait = rng.random() < 0.3
        step = environment.step(len(rows) - 1 if wait else uniform(observation, rng))
        observation, over = step.observation, step.terminated
    assert checked > 100


def follow(instance: Instance, config: DeferrableConfig, slots: int) -> list[np.ndarray]:
    """Return all observations up to a slot under lowest_window."""
    environment = CompiledEnvironment(SCENARIO, config, "carbon", log(), 0)
    observation = environment.begin(instance)
    shown = []
    while environment._ints[m.SLOT] < slots:
        rows = observation.candidates
        best = (rows[:, f.ROW.cost_now] <= rows[:, f.ROW.cost_least]) & observation.feasible
        shown.append(np.concatenate([observation.context, rows.ravel()]))
        observation = environment.step(int(np.flatnonzero(best)[0])).observation
    return shown


@pytest.mark.parametrize("change", [{}, {"pausable": True}, {"load_prices": True}], ids=str)
@pytest.mark.parametrize("seen", ["day", "week", "mean7", "level7", "perfect"])
def test_nothing_beyond_the_forecast_is_seen(seen: str, change: dict[str, bool]) -> None:
    """Other hours from slot 20 on change no observation before; with `perfect` they do."""
    config = dataclasses.replace(LOG, forecast=seen, **change)
    instance = instance_of(config)
    other = dataclasses.replace(instance, floats=instance.floats.copy())
    for block in blocks_of(other)[3:]:
        block[f.HISTORY + 20 :] = np.random.default_rng(3).permutation(block[f.HISTORY + 20 :])
    first, second = follow(instance, config, 20), follow(other, config, 20)
    same = len(first) == len(second) and all(map(np.array_equal, first, second))
    assert same == (seen != "perfect")


def test_with_all_known_the_rule_reaches_the_bound() -> None:
    config = dataclasses.replace(GENERATED, forecast="perfect")
    environment = CompiledEnvironment(SCENARIO, config, "carbon", NOTHING, 0)
    observation = environment.begin(instance_of(config))
    over, total = False, 0.0
    while not over:
        rows = observation.candidates
        best = (rows[:, f.ROW.cost_now] <= rows[:, f.ROW.cost_least]) & observation.feasible
        step = environment.step(int(np.flatnonzero(best)[0]))
        total, observation, over = total + step.reward, step.observation, step.terminated
    outcomes = environment.outcome()
    assert total == pytest.approx(outcomes["bound"])
    assert outcomes["share_of_bound"] == pytest.approx(1.0)
    assert outcomes["saved"] > 0.2


def test_the_share_of_the_bound_is_of_totals_with_their_waiting() -> None:
    config = dataclasses.replace(LOG, waiting_weight=0.001)
    played = []
    for waits in (False, True):  # starting at once, and half of the jobs later
        environment = CompiledEnvironment(SCENARIO, config, "carbon", log(), 0)
        observation, over, rng = (
            environment.begin(instance_of(config)),
            False,
            np.random.default_rng(2),
        )
        while not over:
            last = waits and rng.random() < 0.5
            step = environment.step(int(np.flatnonzero(observation.feasible)[-1 if last else 0]))
            observation, over = step.observation, step.terminated
        played.append(environment.outcome())
    now, later = played
    room = now["bound"] - now["total_reward"]
    share = (later["total_reward"] - now["total_reward"]) / room
    assert later["core_hours_waited"] > now["core_hours_waited"] > 0.0
    assert now["share_of_bound"] == pytest.approx(0.0, abs=1e-12)
    assert later["share_of_bound"] == pytest.approx(share)


@pytest.mark.parametrize("decide", ["slot", "start"])
def test_jobs_to_come_are_not_shown(decide: str) -> None:
    """With unlimited cores, the capacity was the cores of all jobs of the window."""
    config = dataclasses.replace(LOG, decide=decide)
    tasks = log().tasks
    later = pl.when(pl.col("submit_s") > 20 * 3600).then(3 * pl.col("cores")).otherwise("cores")
    shown = []
    for cores in ("cores", later):
        workload = dataclasses.replace(log(), tasks=tasks.with_columns(cores=cores))
        made = SCENARIO.instance(config, "carbon", workload, 0, np.random.default_rng(0))
        shown.append(follow(made, config, 20))
    assert len(shown[0]) == len(shown[1]) > 10
    assert all(map(np.array_equal, *shown))


def test_a_knapsack_without_a_limit_has_room_for_all() -> None:
    """Its free cores are shown as those of all jobs that can start."""
    spec = SCENARIO.spec(GENERATED, "carbon")
    found = {}
    for name in ("now", "latest", "knapsack"):
        policy = Behaviour(name, rankable("deferrable")[name])
        rng = np.random.default_rng(0)
        found[name] = run_episode(SCENARIO, spec, instance_of(GENERATED), policy, rng).total
    assert found["knapsack"] == found["now"] != found["latest"]


LIMITED = {"load_prices": True, "grid_capacity": "constant", "capacity": 24.0}


@pytest.mark.parametrize("change", [{}, LIMITED, {**LIMITED, "reserved": 10}], ids=str)
@pytest.mark.parametrize("decide", ["slot", "start"])
def test_lengths_that_are_not_known_are_not_shown(decide: str, change: dict[str, Any]) -> None:
    """True lengths of 20 h and of 24 h give the same observations until jobs of 20 h end."""
    config = dataclasses.replace(LOG, decide=decide, **change)
    instance = instance_of(config)
    n = int(instance.ints[m.JOBS])
    shown = []
    for hours in (20, 24):
        made = dataclasses.replace(
            instance, ints=instance.ints.copy(), floats=instance.floats.copy()
        )
        for at in (f.RUN_AT, f.LENGTH_AT):
            made.floats[int(made.floats[at]) :][:n] = hours
        environment = CompiledEnvironment(SCENARIO, config, "carbon", log(), 0)
        observation = environment.begin(made)
        seen = []
        while environment._ints[m.SLOT] < 20:
            rows = observation.candidates.ravel()
            seen.append(np.concatenate([observation.context, rows, observation.feasible]))
            choice = int(np.flatnonzero(observation.feasible)[-1 if len(seen) % 3 else 0])
            observation = environment.step(choice).observation
        shown.append(seen)
    assert len(shown[0]) == len(shown[1]) > 10
    assert all(map(np.array_equal, *shown))


def test_the_capacity_to_come_is_not_shown() -> None:
    """Where starts are chosen, cores of later slots are expected as the day before."""
    config = dataclasses.replace(GENERATED, decide="start", **LIMITED)
    instance = instance_of(config)
    other = dataclasses.replace(instance, ints=instance.ints.copy())
    slots = int(other.ints[m.HORIZON])
    m.block(other.ints, m.CAPACITY_AT, slots)[20:] = np.random.default_rng(4).integers(8, 50)
    shown = []
    for made in (instance, other):
        environment = CompiledEnvironment(SCENARIO, config, "carbon", NOTHING, 0)
        observation, seen, over = environment.begin(made), [], False
        while not over:
            if environment._ints[m.SLOT] < 20:
                rows = observation.candidates.ravel()
                seen.append(np.concatenate([observation.context, rows, observation.feasible]))
            choice = int(np.flatnonzero(observation.feasible)[-1 if len(seen) % 3 else 0])
            step = environment.step(choice)
            observation, over = step.observation, step.terminated
        shown.append(seen)
        n = int(made.ints[m.JOBS])
        names = (m.CORES_AT, m.DURATION_AT)
        cores, duration = (m.block(made.ints, at, n) for at in names)
        load = np.zeros(2 * slots)
        for job, start in enumerate(starts_of(environment, n)):
            load[start : start + duration[job]] += cores[job]
        assert (load[: slots - 1] <= m.block(made.ints, m.CAPACITY_AT, slots)[:-1]).all()
    assert len(shown[0]) == len(shown[1]) > 10
    assert all(map(np.array_equal, *shown))


def test_the_bound_on_limited_cores_is_above_what_late_starts_alone_could_cost() -> None:
    """With so many cores that none is short, prices add nothing to the best of all starts."""
    bounds = []
    for cores in (20.0, 40.0, 1e6):
        config = dataclasses.replace(GENERATED, grid_capacity="constant", capacity=cores)
        bounds.append(instance_of(config).floats[f.BOUND])
    assert bounds[0] > bounds[1] > bounds[2] > 0
    run, _, _, y, *_ = blocks_of(instance_of(config))
    ints = instance_of(config).ints
    n = int(ints[m.JOBS])
    cores, earliest = m.block(ints, m.CORES_AT, n), m.block(ints, m.EARLIEST_AT, n)
    free = sum(
        min(y[f.HISTORY + s : f.HISTORY + s + int(run[job])].sum()
            for s in range(earliest[job], int(ints[m.HORIZON]))) * cores[job] / 1e5
        for job in range(n)
    )  # fmt: skip
    assert bounds[2] == pytest.approx(free)


@pytest.mark.parametrize("knows", ["request", "true", "queue_mean", "past_mean"])
def test_lengths_as_known_decide_the_wait(knows: str) -> None:
    config = dataclasses.replace(LOG, knows_length=knows)
    run, known, *_ = blocks_of(instance_of(config))
    ints = instance_of(config).ints
    n = int(ints[m.JOBS])
    wait = m.block(ints, m.LATEST_AT, n) - m.block(ints, m.EARLIEST_AT, n)
    assert (wait[known < 2.0] <= 6).all()
    assert (wait[known >= 2.0] >= 19).all()
    exact = np.allclose(run, known)
    assert exact == (knows == "true")
    assert knows != "queue_mean" or len(np.unique(known)) == 2


@pytest.mark.parametrize(
    ("change", "waits"),
    [
        ({"deadline": "hours"}, [20, 20, 20]),
        ({"deadline": "factor", "deadline_factor": 3.0}, [3, 12, 30]),  # known 1, 4, 10 h
        ({"deadline": "column"}, [8, 20, 0]),  # due at 9 h, unknown, too early
        ({"short_queues": ("batch", "fast")}, [20, 6, 20]),
        ({"short_queues": ("batch",), "knows_length": "queue_mean"}, [20, 6, 20]),
    ],
    ids=str,
)
def test_deadlines_are_of_queues_lengths_or_the_log(
    change: dict[str, object], waits: list[int]
) -> None:
    tasks = log(4).tasks.with_columns(
        submit_s=pl.Series([0.0, 0.0, 0.0, 4e5]), duration_s=pl.lit(3600.0),
        requested_s=pl.Series([3600.0, 4 * 3600.0, 36000.0, 3600.0]),
        deadline_s=pl.Series([9 * 3600.0, None, 7200.0, None]),
        queue=pl.Series(["long", "batch", None, "batch"]),
    )  # fmt: skip
    workload = Workload(tasks, Provenance("table"))
    config = dataclasses.replace(LOG, **change)
    instance = SCENARIO.instance(config, "carbon", workload, 0, np.random.default_rng(0))
    n = int(instance.ints[m.JOBS])
    wait = m.block(instance.ints, m.LATEST_AT, n) - m.block(instance.ints, m.EARLIEST_AT, n)
    assert wait.tolist() == waits
    assert instance.ints[m.HORIZON] > max(waits) + 1


@pytest.mark.parametrize(
    ("change", "known"),
    [
        ({"knows_length": "past_mean"}, [1, 1, 2, 4]),  # nothing has ended, as before, 2, 2 and 6
        ({"knows_length": "past_mean", "short_queues": ("a",)}, [1, 1, 2, 6]),
        ({}, [5, 1, 2, 4]),
    ],
    ids=str,
)
def test_lengths_are_means_of_jobs_that_had_ended(
    change: dict[str, object], known: list[int]
) -> None:
    """Of 2 h from 0:00, 6 h from 1:00 after an hour in the queue, then jobs at 3:00 and 9:00."""
    tasks = log(5).tasks.with_columns(
        submit_s=pl.Series([0.0, 1.0, 3.0, 9.0, 200.0]) * 3600,
        wait_s=pl.Series([0, 3600, 0, 0, 0]),
        duration_s=pl.Series([2.0, 6.0, 9.0, 1.0, 1.0]) * 3600,
        requested_s=pl.Series([5 * 3600.0, None, 0.0, None, None]),
        queue=pl.Series(["a", "b", "a", "b", "b"]),
    )  # fmt: skip
    config = dataclasses.replace(LOG, **change)
    workload = Workload(tasks, Provenance("table"))
    instance = SCENARIO.instance(config, "carbon", workload, 0, np.random.default_rng(0))
    assert blocks_of(instance)[1].tolist() == known


def test_a_request_that_is_the_run_time_is_not_known() -> None:
    """A log without time limits: lengths are means of jobs that had ended, or an hour."""
    tasks = log(3).tasks.with_columns(
        submit_s=pl.Series([0.0, 3.0, 9.0]) * 3600, wait_s=pl.Series([0, 0, 0]),
        duration_s=pl.Series([2.0, 4.0, 9.0]) * 3600,
        requested_s=pl.Series([2.0, 4.0, 9.0]) * 3600,
    )  # fmt: skip
    some = tasks.with_columns(
        requested_s=pl.Series([5.0, 4.0, 9.0]) * 3600,
        request_unknown=pl.Series([False, True, True]),
    )
    config = dataclasses.replace(LOG, horizon=10)
    for rows, known in ((tasks, [1, 2, 3]), (some, [5, 2, 3])):
        workload = Workload(rows, Provenance("table"))
        instance = SCENARIO.instance(config, "carbon", workload, 0, np.random.default_rng(0))
        assert blocks_of(instance)[1].tolist() == known


def test_a_column_that_the_log_lacks_is_named() -> None:
    with pytest.raises(RecipeError, match="no column deadline_s"):
        instance_of(dataclasses.replace(LOG, deadline="column"))
    with pytest.raises(RecipeError, match="no column of a queue"):
        instance_of(dataclasses.replace(LOG, short_queues=("fast",)))


@pytest.mark.parametrize(
    ("config", "change"),
    [
        (GENERATED, {}),
        (GENERATED, {"decide": "start"}),
        (GENERATED, {"load_prices": True}),
        (GENERATED, {"pausable": True}),
        (LOG, {}),
        (LOG, {"decide": "start"}),
        pytest.param(LOG, {"load_prices": True, "decide": "start"}, marks=pytest.mark.slow),
        pytest.param(LOG, {"pausable": True}, marks=pytest.mark.slow),
    ],
)
def test_the_scenario_keeps_the_contract(config: DeferrableConfig, change: dict[str, str]) -> None:
    config = dataclasses.replace(config, horizon=8, **change)
    columns = {feature.name for feature in SCENARIO.spec(config, "both").candidates}
    names = ("lowest_window", "random_prices", "lowest_window_priced", "pause_lowest")
    rules = {name: HEURISTICS[name] for name in names if columns >= {*HEURISTICS[name].needs}}
    check_scenario(
        SCENARIO, config, "both", lambda seed: instance_of(config, "both", seed), rules, episodes=2
    )


def test_the_bound_knows_that_a_running_job_stays_where_the_capacity_falls():
    """The job starts in slot 0, for 2.0 in place of 200, though slot 1 has no core."""
    config = DeferrableConfig(slot_s=3600.0, grid_capacity="constant")
    y = np.full(f.HISTORY + 12, 1.0)
    y[f.HISTORY + 2 :] = 100.0
    one = {"run": np.array([2.0]), "known": np.array([2.0]), "cores": np.array([2])}
    work = Work(np.array([float(f.HISTORY)]), wait=np.array([4.0]), **one)
    power = 2 * config.watts_per_core * config.pue / 1e6
    given = config, work, y, np.zeros(1, np.int64), np.array([6]), np.zeros(1)
    _, least = bounds(*given, np.array([2, 0, 2, 2, 2, 2]))
    assert 0.0 < least <= 2.0 * power * (1 + 1e-9)
    _, least = bounds(*given, np.array([0, 2, 2, 2, 2, 2]))
    assert least > 5.0 * power
