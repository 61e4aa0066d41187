"""`deferrable` with work that may pause: a worked example, and the books against a plain count."""

import dataclasses
from itertools import combinations, product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError, RecipeError
from hindcast.pipeline.grids.starts import Rule, Work, paused
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.testing import uniform
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics.deferrable import HEURISTICS
from hindcast.policies.heuristics.needs import require_columns
from tests.pipeline.scenarios.deferrable.small_logs import log_of

SCENARIO = load_scenario("deferrable")
NOTHING = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
CONFIG = DeferrableConfig(
    jobs="log", horizon=48, short_wait=3.0, long_wait=20.0, short_below=3.0, pausable=True
)


def log(
    submit_h: list[float], run_h: list[float], cores: list[int], asked: float = 1.0
) -> Workload:
    """Return a log whose requests are `asked` times the lengths.

    The last request is a second longer: where all are run times, the log has no requests.
    """
    run_s = np.array(run_h) * 3600
    asked_s = run_s * asked + (np.arange(len(run_s)) == len(run_s) - 1)
    return log_of(np.array(submit_h) * 3600, run_s, cores, asked_s)


def play(
    config: DeferrableConfig, workload: Workload, rule: str, objective: str = "carbon"
) -> dict[str, float]:
    """Return the outcomes of a rule in the first window."""
    environment = CompiledEnvironment(SCENARIO, config, objective, workload, 0)
    rng = np.random.default_rng(0)
    instance = SCENARIO.instance(config, objective, workload, 0, rng)
    observation, over, total = environment.begin(instance), False, 0.0
    while not over:
        scores = HEURISTICS[rule].scores(observation)
        step = environment.step(int(np.argmax(np.where(observation.feasible, scores, -np.inf))))
        observation, over, total = step.observation, step.terminated, total + step.reward
    outcomes = environment.outcome()
    assert total == pytest.approx(outcomes["total_reward"])
    assert total <= outcomes["bound"] + 1e-12
    limited = config.grid_capacity != "unlimited"
    assert limited or outcomes["bound"] >= outcomes["bound_without_pause"]
    return outcomes


@pytest.mark.parametrize(
    ("rule", "resume_h", "grams", "wait_h", "suspensions"),
    [
        ("now", 0.0, 12.0, 0.0, 0),  # 300, 100, half of 400
        ("latest", 0.0, 14.0, 3.0, 0),  # 200, 250, half of 500
        ("pause_lowest", 0.0, 8.5, 2.0, 1),  # 100, then 200, half of 250
        ("pause_lowest", 0.5, 11.0, 2.5, 1),  # as above, and the whole of 250
        ("pause_ecovisor", 0.0, 12.0, 0.0, 0),  # the .3-quantile of every day is 900
    ],
)
def test_a_job_of_two_and_a_half_hours_by_hand(
    tmp_path: Path, rule: str, resume_h: float, grams: float, wait_h: float, suspensions: int
) -> None:
    """A job of 2 cores at 10 W, submitted at 1:00, due at 7:00, in equal days."""
    day = [900, 300, 100, 400, 200, 250, 500] + [900] * 17
    rows = [
        f"2024-01-{date:02}T{hour:02}:00:00Z,a,{x}\n"
        for date in range(1, 15) for hour, x in enumerate(day)
    ]  # fmt: skip
    (tmp_path / "days.csv").write_text("time,zone,carbon_g_kwh\n" + "".join(rows))
    workload = log([1.0, 95.0], [2.5, 0.5], [2, 1])
    config = dataclasses.replace(
        CONFIG, series=str(tmp_path / "days.csv"), forecast="perfect", resume_h=resume_h
    )
    outcomes = play(config, workload, rule)
    assert outcomes["carbon_kg"] * 1e3 == pytest.approx(grams)
    for name in ("mean_wait_h", "longest_wait_h", "p95_wait_h", "wait_h_by_work"):
        assert outcomes[name] == pytest.approx(wait_h)
    assert outcomes["suspensions"] == suspensions
    assert outcomes["late"] == 0
    assert outcomes["bound"] * 1e3 == pytest.approx(-8.5)
    assert outcomes["bound_without_pause"] * 1e3 == pytest.approx(-12.0)
    assert outcomes["saved"] == pytest.approx(1 - grams / 12.0)


@pytest.mark.parametrize("capacity", [None, 20])
@pytest.mark.parametrize("resume_h", [0.0, 0.3])
@pytest.mark.parametrize("slot_s", [3600.0, 900.0])
@pytest.mark.parametrize("asked", [1.0, 0.4, 2.5])
def test_books_are_sums_over_minutes(
    asked: float, slot_s: float, resume_h: float, capacity: int | None
) -> None:
    """Random play: outcomes and forced runs agree with a plain count of minutes and of slots."""
    rng = np.random.default_rng(5)
    count, slot_h = 60, slot_s / 3600
    submit = np.sort(rng.uniform(0, 47, count))
    run = (rng.exponential(3.0, count) * 60).round() / 60 + 1 / 60
    cores = rng.integers(1, 9, count)
    workload = log([*submit.tolist(), 200.0], [*run.tolist(), 1.0], [*cores.tolist(), 1], asked)
    config = dataclasses.replace(
        CONFIG, slot_s=slot_s, horizon=int(48 / slot_h), resume_h=resume_h,
        grid_capacity="constant" if capacity else "unlimited", capacity=float(capacity or 0),
    )  # fmt: skip
    environment = CompiledEnvironment(SCENARIO, config, "carbon", workload, 0)
    instance = SCENARIO.instance(config, "carbon", workload, 0, np.random.default_rng(0))
    hours, length = int(instance.floats[f.HOURS]), int(instance.ints[m.HORIZON])
    at = int(instance.floats[f.CARBON_AT])
    carbon = instance.floats[at : at + hours]
    first, latest = (m.block(instance.ints, b, count).copy() for b in (m.EARLIEST_AT, m.LATEST_AT))
    observation, over, total = environment.begin(instance), False, 0.0
    ran = [set() for _ in range(length)]  # jobs by slot
    while not over:
        slot = int(environment._ints[m.SLOT])
        close = len(observation.feasible) - 1
        step = environment.step(close if rng.random() < 0.4 else uniform(observation, rng))
        start = m.block(environment._ints, m.START_AT, count)
        ran[slot] |= set(np.flatnonzero(start == slot).tolist())
        observation, over, total = step.observation, step.terminated, total + step.reward

    def slots_of(hours: float) -> int:
        return max(int(np.ceil(hours / slot_h - 1e-9)), 1)

    grams = waited = suspensions = late = 0.0
    waits = []
    for job in range(count):
        left, guess, before, end = run[job], run[job] * asked, None, 0.0
        due = latest[job] + slots_of(max(run[job], guess))
        for slot in range(first[job], length):
            if left < 1e-9:
                break
            if job in ran[slot]:
                hours_run = left if slot == length - 1 else min(left, slot_h)
                begin = (f.HISTORY + slot * slot_h) * 3600
                seconds = round(begin) + np.arange(round(hours_run * 3600))
                grams += cores[job] * 0.01 * carbon[seconds // 3600].sum() / 3600
                left, guess, before = left - hours_run, guess - hours_run, slot
                end = slot * slot_h + hours_run
            elif before == slot - 1:
                suspensions += 1
                left, guess = left + resume_h, guess + resume_h
            if left > 1e-9 and job not in ran[slot] and capacity is None:
                assert slot + 1 + slots_of(guess) <= latest[job] + slots_of(run[job] * asked)
        assert left < 1e-9
        waits.append(end - submit[job] - run[job])
        waited += cores[job] * waits[-1]
        late += np.ceil(end / slot_h - 1e-6) > due
    outcomes = environment.outcome()
    assert outcomes["carbon_kg"] == pytest.approx(grams / 1e3, rel=1e-6)
    assert total == pytest.approx(-grams / 1e3, rel=1e-6)
    assert outcomes["core_hours_waited"] == pytest.approx(waited)
    assert outcomes["mean_wait_h"] == pytest.approx(np.mean(waits))
    assert outcomes["longest_wait_h"] == pytest.approx(max(waits))
    assert outcomes["p95_wait_h"] == pytest.approx(np.quantile(waits, 0.95))
    work = run * cores
    assert outcomes["wait_h_by_work"] == pytest.approx(np.array(waits) @ work / work.sum())
    assert outcomes["suspensions"] == suspensions > 0
    assert outcomes["late"] == late
    assert late > 0 or capacity is None
    assert late == 0 or capacity or (asked < 1 and resume_h)  # pauses after the known length
    assert total <= outcomes["bound"] + 1e-12
    load = [sum(cores[job] for job in each) for each in ran]
    assert outcomes["peak_cores"] == max(load)
    assert capacity is None or max(load[:-1]) <= capacity


def test_with_all_known_and_whole_hours_the_rule_reaches_the_bound() -> None:
    rng = np.random.default_rng(7)
    run = rng.integers(1, 9, 40).astype(float)
    workload = log([*range(40), 200.0], [*run, 1.0], [1] * 41)
    outcomes = play(dataclasses.replace(CONFIG, forecast="perfect"), workload, "wait_awhile")
    assert outcomes["total_reward"] == pytest.approx(outcomes["bound"])
    assert outcomes["bound"] > outcomes["bound_without_pause"]
    assert outcomes["suspensions"] > 10


@pytest.mark.parametrize("slot_s", [1800.0, 3600.0, 5400.0])
def test_the_bound_is_that_of_the_best_pieces(slot_s: float) -> None:
    """The rule without a simulator, with all known, takes the same hours."""
    rng, slot_h = np.random.default_rng(3), slot_s / 3600
    count = 40
    run = rng.exponential(4.0, count) + 0.2
    submit = np.sort(rng.uniform(0, 40, count))
    workload = log([*submit, 200.0], [*run, 1.0], [2] * (count + 1))
    config = dataclasses.replace(CONFIG, slot_s=slot_s, horizon=int(60 / slot_h))
    instance = SCENARIO.instance(config, "carbon", workload, 0, np.random.default_rng(0))
    hours, at = int(instance.floats[f.HOURS]), int(instance.floats[f.COST_AT])
    first, latest = (m.block(instance.ints, b, count) for b in (m.EARLIEST_AT, m.LATEST_AT))
    due = (latest + np.maximum(np.ceil(run / slot_h), 1)) * slot_h
    begin = f.HISTORY + first * slot_h
    work = Work(begin, run, run, f.HISTORY + due - begin - run, np.full(count, 2))
    best, _ = paused(work, instance.floats[at : at + hours], Rule("now", "perfect"))
    assert instance.floats[f.BOUND] == pytest.approx(best.sum() * 0.02 / 1e3)


def series_file(folder: Path, hours: np.ndarray, column: str = "price_eur_mwh") -> str:
    """Write hours of one zone from 2024 on, and return the path."""
    times = np.datetime64("2024-01-01T00") + np.arange(len(hours))
    rows = [f"{at}:00Z,a,{x}\n" for at, x in zip(times, hours, strict=True)]
    (folder / "hours.csv").write_text(f"time,zone,{column}\n" + "".join(rows))
    return str(folder / "hours.csv")


def plain_optimum(
    first: np.ndarray, run: np.ndarray, cores: np.ndarray, due: np.ndarray, capacity: np.ndarray,
    y: np.ndarray, late: float, waiting: float,
) -> float:  # fmt: skip
    """Return the least cost per kW-core of all ways to run jobs in slots of an hour, by trying all.

    `y` are hours from slot 0 on. What is left in the last slot runs to its end.
    """
    last = len(capacity) - 1
    plans: list[list[tuple[float, np.ndarray]]] = []
    for job in range(len(run)):
        pieces = int(np.ceil(run[job]))
        found = []
        for count in range(pieces + 1):
            for slots in combinations(range(first[job], last), count):
                used = np.zeros(last + 1)
                used[list(slots)] = cores[job]
                if count == pieces:
                    end = slots[-1] + run[job] - (pieces - 1)
                    parts = [*y[list(slots[:-1])], y[slots[-1]] * (run[job] - (pieces - 1))]
                else:
                    left = run[job] - count
                    end = last + left
                    whole = int(left)
                    parts = [*y[list(slots)], *y[last : last + whole],
                             (left - whole) * y[last + whole]]  # fmt: skip
                cost = cores[job] * (sum(parts) + waiting * (end - run[job] - first[job]))
                found.append((cost + late * (np.ceil(end - 1e-9) > due[job]), used))
        plans.append(found)
    best = np.inf
    for chosen in product(*plans):
        if (np.sum([used for _, used in chosen], axis=0)[:-1] <= capacity[:-1]).all():
            best = min(best, sum(cost for cost, _ in chosen))
    return best


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_on_limited_cores_is_the_optimum_or_below(tmp_path: Path, seed: int) -> None:
    """All plans of three jobs are tried; jobs of one core and whole hours have no gap."""
    rng = np.random.default_rng(seed)
    hours = rng.integers(10, 400, 24 * 14)
    series = series_file(tmp_path, hours, "carbon_g_kwh")
    whole = seed % 2 == 0
    cores = np.ones(3, int) if whole else rng.integers(1, 4, 3)
    run = np.array([2.0, 1.0, 2.0]) - (0.0 if whole else rng.uniform(0.1, 0.9, 3))
    weights = {"waiting_weight": 2e-4 * (seed > 1), "late_weight": 1e-3 * (seed > 3)}
    config = dataclasses.replace(
        CONFIG, series=series, horizon=4, short_wait=2.0, long_wait=2.0, knows_length="true",
        grid_capacity="constant", capacity=float(cores.max()), **weights,
    )  # fmt: skip
    workload = log([0.0, 0.0, 1.0, 8.0], [*run, 1.0], [*cores, 1])
    instance = SCENARIO.instance(config, "carbon", workload, 0, np.random.default_rng(seed))
    ints, floats = instance.ints, instance.floats
    at = int(floats[f.COST_AT])
    y = floats[at + f.HISTORY : at + int(floats[f.HOURS])]
    names = (m.EARLIEST_AT, m.LATEST_AT, m.CORES_AT)
    first, latest, size = (m.block(ints, name, 3) for name in names)
    due = latest + np.ceil(floats[f.FLOAT_HEADER : f.FLOAT_HEADER + 3] - 1e-9)
    capacity = m.block(ints, m.CAPACITY_AT, int(ints[m.HORIZON]))
    weigh = [weights[name] * 1e5 for name in ("late_weight", "waiting_weight")]  # kg and 10 W
    best = plain_optimum(
        first, floats[f.FLOAT_HEADER : f.FLOAT_HEADER + 3], size, due, capacity, y, *weigh
    )  # fmt: skip
    least = floats[f.BOUND] * 1e5
    assert least <= best * (1 + 1e-9)
    assert least >= best * (0.98 if whole else 0.7)
    free = dataclasses.replace(config, capacity=100.0)
    unlimited = SCENARIO.instance(free, "carbon", workload, 0, np.random.default_rng(seed))
    assert least >= unlimited.floats[f.BOUND] * 1e5 * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("resume_h", [0.0, 0.4])
@pytest.mark.parametrize("capacity", [None, 6])
def test_no_rule_is_above_the_bound_where_prices_are_negative(
    tmp_path: Path, capacity: int | None, resume_h: float
) -> None:
    """Work that pauses add earns money there, and late and waiting jobs cost some."""
    rng = np.random.default_rng(11)
    prices = np.round(rng.normal(0.0, 80.0, 24 * 20), 2)
    config = dataclasses.replace(
        CONFIG, series=series_file(tmp_path, prices), horizon=24, resume_h=resume_h, long_wait=8.0,
        grid_capacity="constant" if capacity else "unlimited", capacity=float(capacity or 0),
        waiting_weight=1e-5, late_weight=1e-3,
    )  # fmt: skip
    count = 30
    run = (rng.exponential(3.0, count) * 60).round() / 60 + 1 / 60
    cores = rng.integers(1, 6, count)
    workload = log([*np.sort(rng.uniform(0, 24, count)), 60.0], [*run, 1.0], [*cores, 1], 0.7)
    for rule in ("now", "latest", "pause_lowest", "pause_ecovisor", "threshold_24"):
        outcomes = play(config, workload, rule, "price")
        assert outcomes["total_reward"] <= outcomes["bound"] + 1e-12


def test_settings_that_do_not_suit_are_refused() -> None:
    with pytest.raises(RecipeError, match='expected decide = "slot"'):
        play(dataclasses.replace(CONFIG, decide="start"), log([0.0], [1.0], [1]), "now")
    plain = SCENARIO.spec(dataclasses.replace(CONFIG, pausable=False), "carbon")
    with pytest.raises(InputError, match=r"set config\.pausable = true"):
        require_columns("pause_lowest", HEURISTICS["pause_lowest"].needs, plain)
