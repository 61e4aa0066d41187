"""The policy `mine`: an order of jobs that the reader gives.

    slurm.conf              lines of slurm.conf, or the output of `scontrol show config`
    pbs.txt                 lines of qmgr or sched_config, such as job_sort_formula = -walltime
    rules.py:shortest       a function of the reader's own, with EASY backfilling

    def shortest(jobs):
        return -jobs.requested_s

The function gets the waiting jobs at a moment, see WaitingJobs, and returns a number for each; the
greatest is first, and of equal ones the job that came first.
"""

import inspect
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, PolicyFault
from hindcast.pipeline.plugins import Source, load, source_of
from hindcast.pipeline.whatif.batch_systems.multifactor import (
    Clock,
    Weights,
    labels,
    multifactor_order,
    slurm_mode,
    slurm_order,
    unlisted_partitions,
    usage_shares,
)
from hindcast.pipeline.whatif.batch_systems.pbs_formula import (
    CHANGING,
    FAIR,
    HALF_LIFE_S,
    Formula,
    PbsConf,
    is_pbs_conf,
    parse_pbs_conf,
)
from hindcast.pipeline.whatif.batch_systems.slurm_conf import (
    is_slurm_conf,
    parse_slurm_conf,
    read_text,
)
from hindcast.pipeline.whatif.orders import ASKED, EASY, GIVEN, GREEDY, Ask, Mode, Order, order_of
from hindcast.pipeline.whatif.record import Record
from hindcast.pipeline.whatif.run import UNPLANNED, Run

NAME: Final = "mine"
_EXPECTED: Final = (
    "expected a file with lines of slurm.conf or of PBS (job_sort_formula = ...), or "
    "FILE.py:function"
)
_FUNCTION: Final = re.compile(r"(?P<file>[^:]*\.py):(?P<name>[A-Za-z_]\w*)")

Whole = NDArray[np.int64]
Real = NDArray[np.float64]


@dataclass(frozen=True)
class Mine:
    """A policy that the reader gave.

    Attributes:
        label: The file, or the file and the function.
        order: The order of the waiting jobs, named `mine`.
        mode: Which jobs may start before the first one that does not fit.
        not_modelled: What the simulation does not obey, a clause each.
    """

    label: str
    order: Order
    mode: Mode
    not_modelled: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The policy in words, with the points in which the simulation differs from it."""
        text = f"the scheduler of {self.label}"
        if not self.not_modelled:
            return text
        return f"{text}; the simulation differs from it: {'; '.join(self.not_modelled)}"


@dataclass(frozen=True)
class WaitingJobs:
    """The W waiting jobs at a moment, in order of arrival. The arrays cannot be written.

    Attributes:
        now_s: The moment on the clock of the log.
        wait_s: Time since the scheduler may start the job, (W,).
        requested_s: Requested time, (W,).
        processors: Processors, (W,).
        submit_s: Submission on the clock of the log, (W,).
        user, queue, partition, qos: Numbers of the log, -1 if unknown, (W,).
    """

    now_s: int
    wait_s: Whole
    requested_s: Whole
    processors: Whole
    submit_s: Whole
    user: Whole
    queue: Whole
    partition: Whole
    qos: Whole


def read_mine(given: str, record: Record, clock: Clock | None = None) -> Mine:
    """Return the policy of a file or of a function in a file, for runs of a record.

    Args:
        given: Path of a file, or FILE.py:function. Nothing but this file is imported.
        record: The record.
        clock: Its clock. Without one, resets of usage are at midnight UTC as if second 0 of the
            log were that of 1970, and `not_modelled` says so.

    Raises:
        InputError: The file cannot be read, or has none of these forms.
    """
    if _FUNCTION.fullmatch(given):
        return _of_function(source_of(given))
    path = Path(given).expanduser()
    if path.suffix == ".py" and path.is_file():
        raise InputError(f"{given}: expected FILE.py:function, such as {given}:shortest")
    text = read_text(path)
    slurm, pbs = is_slurm_conf(text), is_pbs_conf(text)
    if slurm and pbs:
        raise InputError(f"{given}: this file has lines of Slurm and of PBS, expected one of them")
    if pbs:
        return _of_pbs(parse_pbs_conf(text, path), record)
    if not slurm:
        raise InputError(f"{given}: no line is known; {_EXPECTED}")
    conf = parse_slurm_conf(text, path)
    aside = [*conf.not_modelled, *unlisted_partitions(conf, record)]
    if conf.reset not in {"NONE", "NOW"} and clock is None:
        aside.append(
            f"PriorityUsageResetPeriod={conf.reset}: the log does not say when its second 0 was, "
            "so usage is reset as if that were 1970-01-01 00:00"
        )
    longest = int(record.requested.max())
    if conf.backfill and conf.window_s < longest:
        aside.append(
            f"bf_window: Slurm looks {conf.window_s // 60:,} minutes ahead, the longest limit "
            f"of the log is {-(-longest // 60):,} minutes"
        )
    order = slurm_order(conf, record, clock or Clock())
    return Mine(path.name, order, slurm_mode(conf), tuple(aside))


def _of_pbs(conf: PbsConf, record: Record) -> Mine:
    """Return the policy of PBS's settings."""
    mode = Mode(conf.depth) if conf.strict else Mode(GREEDY)
    if conf.formula is None:
        first = order_of("fcfs")
        assert first is not None
        return Mine(conf.path.name, replace(first, name=NAME), mode, conf.not_modelled)
    formula, aside = conf.formula, list(conf.not_modelled)
    queue = _queue_priorities(conf, record)
    if not set(FAIR) & formula.names:
        order = _formula_order(formula, conf.path, queue, users=0)
    else:
        weights = Weights(
            age=0, fair=0, max_age_s=1.0, fair_tree=False, dampening=1, half_life_s=HALF_LIFE_S,
            reset="NONE", accrue=False, fixed=lambda run: np.zeros(len(run.row)),
        )  # fmt: skip
        memory = multifactor_order(NAME, weights, record, Clock()).priorities
        users = len(np.unique(record.user))
        order = replace(
            _formula_order(formula, conf.path, queue, users), kind=ASKED, priorities=memory
        )
        aside.append(
            "fair share: users have equal shares, and usage in processor-seconds is halved every "
            "day (fairshare_decay_time 24:00:00, fairshare_decay_factor 0.5)"
        )
    return Mine(conf.path.name, order, mode, tuple(aside))


def _queue_priorities(conf: PbsConf, record: Record) -> Real:
    """Return the priority of the queues -1, 0, 1, .. of a log; 0 where no line sets it."""
    found = np.zeros(int(record.queue.max(initial=-1)) + 2)
    there = labels(record, "queue")
    for name, value in conf.queues.items():
        if name in there:
            found[there[name] + 1] = value
    uses = conf.formula is not None and "queue_priority" in conf.formula.names
    if uses and conf.queues and there and not set(conf.queues) & set(there):
        raise InputError(
            f"{conf.path}: the formula has queue_priority, but none of the queues "
            f"{', '.join(conf.queues)} is one of the log; expected {', '.join([*there][:20])}"
        )
    return found


def _formula_order(formula: Formula, path: Path, queue: Real, users: int) -> Order:
    """Return the order of a formula; `users` shares of fair share, 0 if it has none."""

    def values(run: Run, jobs: Whole, now: int, moving: dict[str, Real]) -> Real:
        """Return the values of the formula for waiting jobs at a moment, (W,)."""
        found = formula.values({
            "ncpus": run.cpu[jobs].astype(np.float64),
            "walltime": run.requested[jobs].astype(np.float64),
            "queue_priority": queue[run.queue[jobs] + 1],
            "job_priority": np.zeros(len(jobs)),
            "fairshare_perc": np.full(len(jobs), 1.0 / max(users, 1)),
            **moving,
        })  # fmt: skip
        if np.isfinite(found).all():
            return found
        one = jobs[int(np.argmin(np.isfinite(found)))]
        raise InputError(
            f"{path}: the formula {formula.text!r} has no number for a job of {run.cpu[one]} "
            f"processors and {run.requested[one]} s that waits at second {now} of the log"
        )

    def numbers(run: Run) -> Real:
        return values(run, np.arange(len(run.row)), run.now, {})

    def ask(run: Run, ints: Whole, floats: Real) -> Ask:
        def at(now: int, jobs: Whole, arrive: Whole) -> Real:
            moving = {"eligible_time": (now - arrive[jobs]).astype(np.float64)}
            if users:
                shares, user = usage_shares(ints, floats, now)
                of_jobs = shares[user[jobs]]
                moving["fairshare_tree_usage"] = of_jobs
                moving["fairshare_factor"] = 2.0 ** -(of_jobs * users)
            return values(run, jobs, now, moving)

        return at

    if formula.names & set(CHANGING):
        return Order(NAME, ASKED, ask=ask)
    return Order(NAME, GIVEN, numbers=numbers)


def _of_function(source: Source) -> Mine:
    """Return the policy of a function of the reader's own."""
    function = load(source)
    if not callable(function) or isinstance(function, type):
        raise InputError(f"{source.label}: is {type(function).__name__}; expected a function")
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError) as error:
        raise InputError(f"{source.label}: expected a function of one argument, jobs") from error

    def ask(run: Run, _ints: Whole, _floats: Real) -> Ask:
        def at(now: int, jobs: Whole, arrive: Whole) -> Real:
            return _asked(function, source.label, _waiting(run, now, jobs, arrive))

        return at

    return Mine(source.label, Order(NAME, ASKED, ask=ask), EASY)


def _waiting(run: Run, now: int, jobs: Whole, arrive: Whole) -> WaitingJobs:
    """Return what a function sees of the W waiting jobs at a moment `now`.

    `jobs` are their numbers in the run, (W,); `arrive` has the arrivals of all jobs of the run. A
    job that came with the end of another one was submitted at its arrival.
    """
    submit = np.where(run.arrive[jobs] == UNPLANNED, arrive[jobs], run.submit[jobs])
    columns = [
        now - arrive[jobs], run.requested[jobs], run.cpu[jobs], submit, run.user[jobs],
        run.queue[jobs], run.partition[jobs], run.qos[jobs],
    ]  # fmt: skip
    for column in columns:
        column.flags.writeable = False
    return WaitingJobs(now, *columns)


def _asked(function: Callable[[WaitingJobs], Any], label: str, waiting: WaitingJobs) -> Real:
    """Return the priorities of a function; raise PolicyFault if they cannot be used."""
    at, size = f"at second {waiting.now_s} of the log", len(waiting.wait_s)
    try:
        found = function(waiting)
    except Exception as error:  # the function can raise anything
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(str(error).split())[:300]
        raise PolicyFault(
            f"{label}: raised {type(error).__name__}: {said} ({Path(last.filename).name}, line "
            f"{last.lineno}) {at}"
        ) from error
    try:
        values = np.array(found, np.float64)
    except (TypeError, ValueError) as error:
        raise PolicyFault(
            f"{label}: returned {type(found).__name__} {at}, expected {size} numbers"
        ) from error
    if values.shape != (size,):
        raise PolicyFault(
            f"{label}: returned an array of shape {values.shape} {at}, expected {(size,)}, one "
            "number per waiting job"
        )
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise PolicyFault(
            f"{label}: the priority of waiting job {row} is {values[row]} {at}, expected a finite "
            "number"
        )
    return values
