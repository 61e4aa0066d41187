"""Advice: the lines of slurm.conf and of PBS that come nearest to a rule.

Every row is simulated on the reader's log as a policy of its own, with what the lines say: whole
minutes of limits, whole priorities, the period at which Slurm computes them, the jobs that are
tested and those that get a reservation. Slurm reserves for every tested job unless
bf_job_part_count_reserve says otherwise, so every Slurm row is there twice.

    rule itself                                     EASY, and all tested jobs reserve
    PBS: job_sort_formula                           exact
    Slurm: nice from a job_submit plugin            rules that do not age; exact up to minutes
    Slurm: site_factor plugin                       rules that age; exact to PriorityCalcPeriod
    Slurm: age less a handicap k r n, k h ln r,     without a plugin that ages; k chosen
           k h ln(r n)
    Slurm: multifactor, age and size                without a plugin; one of 24, chosen
    Slurm: multifactor with fair share              without a plugin

r is the requested time in s, n the processors, h an hour. Constants are chosen by the mean bounded
slowdown of the jobs from 40 to 70 % of the log; values are those of the last 30 %.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.priorities import NUMBER, priority
from hindcast.pipeline.simulation.kernel import compiled
from hindcast.pipeline.whatif.batch_systems.multifactor import Clock, slurm_mode, slurm_order
from hindcast.pipeline.whatif.batch_systems.slurm_conf import parse_slurm_conf
from hindcast.pipeline.whatif.orders import (
    AGED,
    ALL,
    ALL_RESERVE,
    AREAS,
    CHANGE,
    EASY,
    FILL,
    FILLED,
    GIVEN,
    GREEDY,
    HANDICAP,
    LEARNING,
    PREDICTING,
    Mode,
    Order,
    Priorities,
    order_of,
    policy_of,
)
from hindcast.pipeline.whatif.outcomes import outcomes
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import Record
from hindcast.pipeline.whatif.run import Run, run_of

Real = NDArray[np.float64]

CHOSEN_FROM: Final = 0.4  # share of the jobs before those on which constants are chosen
STEPS: Final = tuple(2.0**e for e in range(-3, 7))  # k of a handicap
TESTED: Final = 500  # bf_max_job_test
WINDOW: Final = 43_200  # greatest bf_window in minutes
# Choosing constants takes about 110 runs of 30 % of the log.
FEW: Final = 100_000  # jobs of the run up to which all constants are chosen
OUTCOMES: Final = (
    "mean_bounded_slowdown", "mean_wait_s", "p95_wait_s", "p99_wait_s", "max_wait_s",
    "mean_slowdown_wide", "mean_slowdown_long", "starved_share", "user_fairness",
)  # fmt: skip

# What rules with predictions keep of completed runs.
_KEPT: Final = {
    **dict.fromkeys(PREDICTING, "the last run times of users"),
    **dict.fromkeys(LEARNING, "means of the run times of users and of requests"),
}
_WORDS: Final = {ALL: "all", 0: "none", GREEDY: "greedy"}
_NICE: Final = 2_147_483_645  # the greatest nice
_CONSTANTS: Final = (1_000_000_000, 4_000_000_000)  # above every nice
_YEAR_S: Final = 31_536_000

# Rules that do not age: what `nice` is, and its function of whole minutes and processors.
_STATIC: Final[Mapping[str, tuple[str, Callable[[Real, Real], Real]]]] = {
    "sjf": ("limit in minutes", lambda m, _: m),
    "ljf": ("- limit in minutes", lambda m, _: -m),
    "smallest": ("processors", lambda _, n: n),
    "largest": ("- processors", lambda _, n: -n),
    "saf": ("limit in minutes x processors", lambda m, n: m * n),
    "laf": ("- limit in minutes x processors", lambda m, n: -m * n),
}
_FORMULAS: Final[Mapping[str, str]] = {
    "fcfs": "",
    "sjf": "-walltime",
    "ljf": "walltime",
    "smallest": "-ncpus",
    "largest": "ncpus",
    "saf": "-(walltime*ncpus)",
    "laf": "walltime*ncpus",
    "lxf": "(eligible_time+walltime)/walltime",
    "wfp3": "((eligible_time/walltime)**3)*ncpus",
    # The logarithm of the rule: another base turns ties by its rounding.
    "unicef": "eligible_time/(walltime*log2(ncpus if ncpus>2 else 2))",
}
_HANDICAPS: Final[Mapping[str, Callable[[Real, Real], Real]]] = {
    "k r n": lambda r, n: r * n,
    "k h ln r": lambda r, _: 3600.0 * np.log(r),
    "k h ln(r n)": lambda r, n: 3600.0 * np.log(r * n),
}
_SIZES: Final = ("PriorityFavorSmall=YES", "PriorityFlags=SMALL_RELATIVE_TO_TIME,NO_FAIR_TREE")
_GRID: Final = tuple(
    "\n".join((
        f"PriorityWeightAge={age}", f"PriorityMaxAge={days}-0", f"PriorityWeightJobSize={size}",
        "PriorityWeightFairshare=0", form,
    ))
    for form, size, age, days in itertools.product(
        _SIZES, (1_000, 100_000, 10_000_000), (1_000, 10_000), (1, 7)
    )
)  # fmt: skip
_FAIR: Final = """PriorityWeightAge=1000
PriorityMaxAge=7-0
PriorityWeightJobSize=1000
PriorityFavorSmall=YES
PriorityWeightFairshare=10000
PriorityDecayHalfLife=7-0
PriorityFlags=NO_FAIR_TREE"""


@dataclass(frozen=True)
class Setting:
    """A row of the table: a policy, and the lines that make a scheduler follow it.

    Attributes:
        rule: What orders the jobs.
        scheduler: "simulated", "Slurm", "PBS", or "today".
        exact: How near the lines come to the rule.
        lines: The lines, separated by newlines; empty for a policy that is only simulated.
        order, mode: The policy.
        choice: What was chosen, such as "k = 2"; else empty.
    """

    rule: str
    scheduler: str
    exact: str
    lines: str
    order: Order
    mode: Mode
    choice: str = ""


@dataclass(frozen=True)
class Advice:
    """The table and what is not in it.

    Attributes:
        frame: A row per setting: rule, scheduler, reservations ("1", .., "all", "none" or
            "greedy"), exact, choice, lines, and the outcomes of the run, see OUTCOMES.
        left_out: Why rows are missing, a sentence each.
    """

    frame: pl.DataFrame
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Log:
    """Log and runs that the rows are simulated on.

    Attributes:
        record, run: The log, and its last 30 %.
        chosen_on: The run on which constants are chosen.
        clock: The clock of the log.
        minutes: Whether limits are whole minutes in Slurm's rows.
        window: bf_window in minutes, above the largest limit.
        tell: Called after each run that was played.
    """

    record: Record
    run: Run
    chosen_on: Run
    clock: Clock
    minutes: bool
    window: int
    tell: Callable[[], None] = field(repr=False)

    def played(self, run: Run, order: Order, mode: Mode) -> dict[str, float]:
        """Return the outcomes of a run under a policy."""
        found = outcomes(run, play(run, order, mode))
        self.tell()
        return found


def advise(
    record: Record, run: Run, best: str, today: tuple[Order, Mode] | None = None, *,
    clock: Clock | None = None, minutes: bool = True, tell: Callable[[], None] = lambda: None,
) -> Advice:  # fmt: skip
    """Return the settings that come nearest to a rule, each with its simulated outcomes.

    Args:
        record: The record.
        run: Its last 30 %.
        best: The rule by its name in tables, such as `saf_easy`.
        today: The reader's own policy, or the known scheduler; it is the first row.
        clock: The clock of the log.
        minutes: Whether limits are whole minutes in Slurm's rows, as they are there.
        tell: Called after each run that was played.
    """
    first = int(CHOSEN_FROM * len(record.row))
    warm = bool(record.known.any())
    longest = int(-(-record.requested.max() // 60))
    before = run_of(record, first, record.first, warm=warm) if first < record.first else run
    window = min(max(longest + 1, 1440), WINDOW)
    log = _Log(record, run, before, clock or Clock(), minutes, window, tell)
    jobs, left_out = int(run.counted.sum()), list[str]()
    if longest >= WINDOW:
        left_out.append(
            f"backfilling of jobs whose limit is {WINDOW // 1440} days and more: bf_window cannot "
            "exceed it, and the simulation has no window"
        )
    rows = [] if today is None else [Setting(today[0].name, "today", "", "", *today)]
    rows += _of_rule(log, best, left_out)
    if jobs <= FEW:
        for form in _HANDICAPS:
            rows += _handicaps(log, form)
        rows += _multifactors(log)
    rows += [
        replace(row, rule="multifactor with fair share", exact="another order")
        for row in _of_lines(log, _FAIR)
    ]
    if jobs > FEW:
        left_out.append(
            "handicaps and multifactor weights, which are chosen, and rows in which every tested "
            f"job reserves: the run has {jobs:,} jobs, and they would take many minutes"
        )
        rows = [row for row in rows if row.mode.reservations != ALL]
    known: dict[tuple[int, Mode], dict[str, float]] = {}  # of orders that are there twice
    table = []
    for row in rows:
        key = id(row.order), row.mode
        if key not in known:
            known[key] = log.played(run, row.order, row.mode)
        reserving = _WORDS.get(row.mode.reservations, str(row.mode.reservations))
        table.append({
            "rule": row.rule, "scheduler": row.scheduler, "reservations": reserving,
            "exact": row.exact, "choice": row.choice, "lines": row.lines,
            **{name: known[key][name] for name in OUTCOMES},
        })  # fmt: skip
    return Advice(pl.DataFrame(table, infer_schema_length=None), tuple(left_out))


def _of_rule(log: _Log, best: str, left_out: list[str]) -> list[Setting]:
    """Return the rows of a rule itself, of PBS, and of Slurm with a plugin."""
    name = "fcfs" if best == "conservative" else best.rpartition("_")[0]
    name = name if policy_of(best) is not None and name in NUMBER else best
    order = order_of(name)
    if order is None or best.endswith("_clairvoyant"):
        left_out.append(f"rows of {best}: it is no priority of what a scheduler knows")
        return []
    rows = [
        Setting(name, "simulated", "the rule itself", "", order, m) for m in (EASY, ALL_RESERVE)
    ]
    if log.run.resources is not None and name in AREAS:
        left_out.append(
            f"settings of {best}: its area counts the scarcest resource of each job, for which "
            "Slurm and PBS have no setting"
        )
        return rows
    if name in _FORMULAS:
        rows.append(Setting(name, "PBS", "exact", _pbs_lines(_FORMULAS[name]), order, EASY))
    if name == "fcfs":
        lines = "PriorityType=priority/basic"
        return rows + [
            replace(row, rule=name, exact="order exact") for row in _of_lines(log, lines)
        ]
    if name in _STATIC:
        what, nice = _STATIC[name]
        aged, exact = "", "order exact up to minutes"
        plugin = f"# job_submit plugin: nice = {what}, at most {_NICE}"
        slurm = Order(name, GIVEN, numbers=_static(nice), minutes=log.minutes)
        return rows + _with_nice(log, Setting(name, "Slurm", exact, plugin, slurm, EASY), aged)
    if order.kind != AGED:
        left_out.append(f"Slurm's rows of {name}: nice is no function of when a log began")
        return rows
    if name in _KEPT:
        left_out.append(
            f"PBS's row of {name}: it needs a hook that writes predicted run times into a resource"
        )
    for period, modes in ((60, (1, 0)), (300, (1,))):
        exact = f"to PriorityCalcPeriod ({period} s)"
        if name in _KEPT:
            exact += f"; the plugin has to keep {_KEPT[name]}"
        plugin = (
            f"PriorityCalcPeriod={period // 60}\nPrioritySiteFactorPlugin=site_factor/{name}\n"
            f"# site_factor plugin: floor(1000 x the priority of {name}), at most {_NICE}"
        )
        seen = replace(_site_factor(order), refresh_s=period, minutes=log.minutes)
        rows += _in_modes(log, Setting(name, "Slurm", exact, plugin, seen, EASY), modes)
    return rows


def _pbs_lines(formula: str) -> str:
    lines = ["set server backfill_depth = 1", "strict_ordering: true ALL"]
    if formula:
        lines.insert(0, f'set server job_sort_formula = "{formula}"')
    if "eligible_time" in formula:
        lines.insert(1, "set server eligible_time_enable = true")
    return "\n".join(lines)


def _slurm_lines(log: _Log, reserving: int) -> str:
    """Return the lines of the scheduler; 0: every tested job gets a reservation."""
    reserve = f"bf_job_part_count_reserve={reserving}," if reserving else ""
    return (
        "SchedulerType=sched/backfill\n"
        f"SchedulerParameters=bf_max_job_test={TESTED},{reserve}bf_window={log.window},"
        "bf_interval=30"
    )


def _in_modes(log: _Log, row: Setting, reserving: Iterable[int] = (1, 0)) -> list[Setting]:
    """Return a row with EASY backfilling and with the reservations of every tested job."""
    found = []
    for number in reserving:
        lines = f"{row.lines}\n{_slurm_lines(log, number)}"
        conf = parse_slurm_conf(lines, _PATH)
        found.append(replace(row, scheduler="Slurm", lines=lines, mode=slurm_mode(conf)))
    return found


_PATH: Final = Path("slurm.conf")


def _with_nice(log: _Log, row: Setting, aged: str) -> list[Setting]:
    """Return rows with `nice`, and a constant that keeps priorities above 1."""
    constant = _CONSTANTS[0]
    numbers = row.order.numbers
    assert numbers is not None
    if np.abs(numbers(log.run)).max() >= constant:
        constant = _CONSTANTS[1]
    lines = (
        f"PriorityType=priority/multifactor\n{aged}PriorityWeightPartition={constant}\n"
        f"# every PartitionName line: PriorityJobFactor=1\n{row.lines}"
    )
    return _in_modes(log, replace(row, lines=lines))


def _minutes(run: Run) -> Real:
    return np.ceil(run.requested / 60)


def _static(nice: Callable[[Real, Real], Real]) -> Callable[[Run], Real]:
    """Return the priorities less a constant of a rule that does not age."""
    return lambda run: -np.minimum(nice(_minutes(run), run.cpu.astype(np.float64)), _NICE)


def _handicaps(log: _Log, form: str) -> list[Setting]:
    """Return the rows of a handicap, with k chosen for each way of reserving."""
    handicap = _HANDICAPS[form]

    def order(k: float) -> Order:
        def numbers(run: Run) -> Real:
            r = 60 * _minutes(run) if log.minutes else run.requested.astype(np.float64)
            return np.minimum(np.floor(k * handicap(r, run.cpu.astype(np.float64))), _NICE)

        return Order(f"handicap {form}", HANDICAP, numbers=numbers, minutes=log.minutes)

    aged = f"PriorityMaxAge=365-0\nPriorityWeightAge={_YEAR_S}\n"
    rows = []
    for k, number in _choose(log, [(k, order(k)) for k in STEPS]):
        what = form.replace("k", f"{k:g}", 1).replace(" h ", " x 3600 ")
        plugin = f"# job_submit plugin: nice = floor({what}), r: limit in s, n: processors"
        exact = f"approximate: order of arrival + {form}"
        row = Setting(f"handicap {form}", "Slurm", exact, plugin, order(k), EASY, f"k = {k:g}")
        rows.append(_with_nice(log, row, aged)[1 - number])
    return rows


def _of_lines(log: _Log, lines: str) -> list[Setting]:
    """Return the rows of multifactor lines, simulated as they are read."""
    if "PriorityType" not in lines:
        lines = f"PriorityType=priority/multifactor\n{lines}"
    order = slurm_order(parse_slurm_conf(lines, _PATH), log.record, log.clock)
    order = replace(order, minutes=log.minutes)
    return _in_modes(log, Setting("multifactor", "Slurm", "another order", lines, order, EASY))


def _multifactors(log: _Log) -> list[Setting]:
    """Return the rows of age and size, chosen from 24 for each way of reserving."""
    rows = [_of_lines(log, lines) for lines in _GRID]
    numbered = [(place, row[0].order) for place, row in enumerate(rows)]
    return [
        replace(rows[place][1 - number], rule="multifactor age + size", choice=f"1 of {len(_GRID)}")
        for place, number in _choose(log, numbered)
    ]


def _choose(log: _Log, orders: Sequence[tuple[Any, Order]]) -> list[tuple[Any, int]]:
    """Return the best label of orders with EASY backfilling, 1, and with all reserving, 0."""
    chosen = []
    for number in (1, 0):
        mode = Mode(number or ALL, TESTED)
        values = [
            log.played(log.chosen_on, order, mode)["mean_bounded_slowdown"] for _, order in orders
        ]
        chosen.append((orders[int(np.argmin(values))][0], number))
    return chosen


def _site_factor(order: Order) -> Order:
    """Return the order of whole thousandths of a rule's priority.

    A rule with predictions is played with its own priorities.
    """
    if order.name in _KEPT:
        return order
    rule = order.rule

    def begin(run: Run) -> tuple[NDArray[np.int64], Real]:
        limit = 60 * _minutes(run).astype(np.int64)
        return np.concatenate([[len(run.row), rule], limit, run.cpu]), np.zeros(1)

    return Order(order.name, FILLED, priorities=Priorities(begin, _fill_site_factor, _no_change))


@compiled(FILL)
def _fill_site_factor(ints, _floats, now, jobs, arrive, priorities):  # type: ignore[no-untyped-def]
    size, rule = ints[0], ints[1]
    for place in range(len(jobs)):
        job = jobs[place]
        waited, limit = float(max(now - arrive[job], 0)), float(ints[2 + job])
        value = priority(rule, waited, limit, float(ints[2 + size + job]), 1.0, limit, limit)
        priorities[place] = min(max(np.floor(1000.0 * value), 1.0), 2147483645.0)


@compiled(CHANGE)
def _no_change(_ints, _floats, _now, _job, _sign):  # type: ignore[no-untyped-def]
    pass
