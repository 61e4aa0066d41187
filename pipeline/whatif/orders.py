"""Policies of a run: the order of the waiting jobs, and which of them may start out of order.

A rule of scenario `queue` that is a priority is an Order in one of these modes:

    NAME          strict: nobody starts before the first job of the order
    NAME_easy     the first job that does not fit holds the reservation; jobs behind it start
                  where they do not delay it (EASY backfilling)
    NAME_greedy   whoever fits starts
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.layout import LATER
from hindcast.pipeline.scenarios.queue.priorities import NUMBER
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, Compiled

if TYPE_CHECKING:
    from hindcast.pipeline.whatif.run import Run

ALL: Final = LATER  # reservations of every tested job
GREEDY: Final = -1  # no job holds a reservation, and whoever fits starts
NO_LIMIT: Final = LATER  # of the jobs that are tested

Ask = Callable[[int, NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]

# Signatures of compiled priorities, see Priorities.
FILL: Final = types.void(INTS, FLOATS, types.int64, INTS, INTS, FLOATS)
CHANGE: Final = types.void(INTS, FLOATS, types.int64, types.int64, types.int64)

FIXED: Final = 0  # a rule whose priorities do not change while a job waits
AGED: Final = 1  # a rule whose priorities grow with the wait
GIVEN: Final = 2  # a number per job, greatest first
HANDICAP: Final = 3  # least arrival + handicap first
FILLED: Final = 4  # compiled priorities at every moment
ASKED: Final = 5  # a Python function at every moment


@dataclass(frozen=True)
class Priorities:
    """Compiled priorities that depend on the state, such as Slurm's multifactor priority.

    Attributes:
        begin: Function of a run that returns its memory: integers and numbers, C-contiguous. The
            two compiled functions read and write it as they like.
        fill: fill(ints, floats, now, jobs, arrive, priorities), of signature FILL. Fills the
            priorities (W,) of the waiting jobs (W,), given as indices into the run, in order of
            arrival; the greatest is first, ties go to the earlier arrival. `arrive` (N,) has the
            moment at which each job came, by which later parts of chains are known. It is called
            at moments at which a waiting job fits, after all changes of that moment. With a
            refresh of c s, `now` is now // c * c, which may lie before the last change.
        change: change(ints, floats, now, job, sign), of signature CHANGE. A job begins (1) or
            ceases (-1) to hold its processors. Called for every job that runs at the beginning of
            the run, then at every start and end in order of time.
    """

    begin: "Callable[[Run], tuple[NDArray[np.int64], NDArray[np.float64]]]"
    fill: Compiled
    change: Compiled


@dataclass(frozen=True)
class Order:
    """An order of the waiting jobs, greatest priority first; ties go to the earlier arrival.

    Attributes:
        name: Name in tables.
        kind: FIXED, AGED, GIVEN, HANDICAP, FILLED or ASKED.
        rule: Number of the rule in hindcast.pipeline.scenarios.queue.priorities, for FIXED and
            AGED.
        behind: Number of the rule that orders the jobs behind the reservation; -1: the same order.
        numbers: Priority of every job of the run for GIVEN, handicap in s for HANDICAP, (N,). A
            handicap f orders by arrival + f, least first. Function of the run, which may be one of
            a changed world.
        priorities: For FILLED.
        ask: For ASKED: function of a run and of the two arrays of its memory, which `priorities`
            keeps if it is given. It returns the function (now, jobs, arrive) of the priorities
            (W,) of the waiting jobs, whose arguments are those of Priorities.fill.
        clairvoyant: Whether the scheduler knows run times instead of requested ones.
        refresh_s: Priorities are those of the last whole multiple of so many seconds.
        minutes: Whether requested times are whole minutes, rounded up.
    """

    name: str
    kind: int = FIXED
    rule: int = -1
    behind: int = -1
    numbers: "Callable[[Run], NDArray[np.float64]] | None" = None
    priorities: Priorities | None = None
    ask: "Callable[[Run, NDArray[np.int64], NDArray[np.float64]], Ask] | None" = None
    clairvoyant: bool = False
    refresh_s: int = 1
    minutes: bool = False


@dataclass(frozen=True)
class Mode:
    """Backfilling: the jobs that may start before the first one that does not fit, the head.

    Attributes:
        reservations: 0: none of them. 1: those that do not delay the head (EASY backfilling).
            K > 1, ALL: the first K tested jobs that cannot start, the head among them, get the
            earliest slot of their requested time. GREEDY: all that fit.
        depth: Number of jobs that are tested in the order, the head included; 0 and 1: no
            backfilling.
    """

    reservations: int = 1
    depth: int = NO_LIMIT


STRICT: Final = Mode(0)
EASY: Final = Mode(1)
ALL_RESERVE: Final = Mode(ALL)

AGES: Final = {
    "lxf": (0.0, 1, 1.0), "wfp3": (0.0, 3, 0.0), "unicef": (0.0, 1, 0.0),
    "similar_area": (60.0, 1, 0.0), "aged_area": (86400.0, 1, 0.0),
    "aged_similar": (86400.0, 1, 0.0), "steady_area": (3600.0, 1, 0.0),
    "balanced_area": (3600.0, 1, 0.0), "aged_expected": (86400.0, 1, 0.0),
    "wsept": (86400.0, 1, 0.0),
}  # fmt: skip
# rule: (a, e, c) of its priority c + (w + a)^e g, where only the wait w changes with time
PREDICTING: Final = (
    "spf", "sapf", "similar_area", "aged_area", "aged_similar", "steady_area", "balanced_area",
)  # fmt: skip
# Rules with an area: with several resources, of equivalent processors.
AREAS: Final = (
    "saf", "laf", "sapf", "similar_area", "aged_area", "aged_similar", "balanced_area",
    "aged_expected", "wsept",
)  # fmt: skip
LEARNING: Final = ("aged_expected", "wsept")  # from completed runs of all users
_CLAIRVOYANT: Final = ("sjf", "saf", "lxf")


def order_of(name: str) -> Order | None:
    """Return the order of a rule's plain name, such as `saf`; None if it is not a priority."""
    if name not in NUMBER:
        return None
    return Order(name, AGED if name in AGES else FIXED, NUMBER[name])


def policy_of(name: str) -> tuple[Order, Mode] | None:
    """Return the order and the mode of a rule of scenario `queue`; None if it is no such rule."""
    if name == "conservative":
        return Order(name, FIXED, NUMBER["fcfs"]), ALL_RESERVE
    if name == "fcfs_easy_sjbf":
        return Order(name, FIXED, NUMBER["fcfs"], behind=NUMBER["sjf"]), EASY
    rule, _, form = name.rpartition("_")
    modes = {"easy": EASY, "greedy": Mode(GREEDY), "clairvoyant": EASY, "conservative": ALL_RESERVE}
    mode = modes.get(form)
    of_some = {"clairvoyant": _CLAIRVOYANT, "conservative": LEARNING}
    if mode is None or rule not in of_some.get(form, (rule,)):
        rule, mode = name, STRICT
    order = order_of(rule)
    if order is None:
        return None
    known = form == "clairvoyant" and mode is EASY
    return Order(name, order.kind, order.rule, clairvoyant=known), mode
