"""The grade of a machine: how far a record can be that of one machine with an orderly scheduler.

Each measurement has a letter by `LIMITS`, and the grade is the worst of them. The grade says
nothing about the order that the scheduler keeps: every order with any number of reservations has A.

Two limits keep it so. A scheduler that acts at multiples of c s only has D = c for its letters. And
`idle` is A where all others are: jobs that the nearest scheduler would have started, on a machine
without any other fault, say that the scheduler is not quite the nearest one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from hindcast.pipeline.scenarios.queue.asks import ANY_GPUS, GPUS, PROCESSORS, TYPE
from hindcast.pipeline.whatif.closed import Closed, closed, closed_times, without
from hindcast.pipeline.whatif.family import Explained, explain, members
from hindcast.pipeline.whatif.measures import (
    LEAST_ALONE,
    MOST_DELTA,
    Measures,
    cycle_of,
    measure,
    pooled,
)
from hindcast.pipeline.whatif.orders import Mode, Order
from hindcast.pipeline.whatif.record import Record

# Largest values of the letters A, B and C; beyond them it is D.
LIMITS: Final[Mapping[str, tuple[float, float, float]]] = {
    "over": (0.002, 0.01, 0.05),
    "open": (0.01, 0.05, 0.20),
    "passed": (0.05, 0.15, 0.30),
    "odd": (0.02, 0.10, 0.30),
    "reaction": (300.0, 900.0, 3600.0),  # s
    "idle": (0.04, 0.10, 0.30),
}
KNOWN: Final = 0.95  # least share of starts that a known scheduler explains
LEAST_STARTS: Final = 100  # starts after a wait, below which there is no grade
LEAST_TWINS: Final = 30
NO_GRADE: Final = "-"
SEVERAL: Final = "several"  # resources, which together keep a job from starting
_LETTERS: Final = "ABCD"


@dataclass(frozen=True)
class Grade:
    """The grade of a record, with all that a page says about it.

    Attributes:
        letter: "A" to "D", or "-" if nearly no job waits. With closed times, the letter of the
            record without them, at best B.
        letters: Letter by measurement, of the measurements that were used.
        numbers: Values of the whole record: over, open, passed, twins, odd, starts, reaction,
            delta, explained, idle. `starts` are starts after a wait.
        known: Order and mode of the scheduler, such as "saf easy"; None if none explains 95 %.
        nearest: Order and mode that explain the largest share of the starts; "" without starts.
        members: The orders and modes that were compared, the nearest first.
        closed: Closed times, in order of time.
        rest: `numbers` without the closed times, None if there are none.
        rest_letters: `letters` without the closed times.
        jobs: Jobs of the record.
        unknown: Jobs of unknown start, which no number includes.
        unknown_work: Their share of the processor-seconds.
        at_once: Share of the other jobs that did not wait.
        mean_wait_s: Mean wait of the other jobs in s, from their arrival.
        fitting: Share of their waiting (job-seconds) while the job itself would have fitted.
        over: Share of what was held of each resource that was beyond the machine; {} for
            processors alone.
        stopped: Share of the waiting (job-seconds) by the resource that alone kept the job from
            starting, or SEVERAL; {} for processors alone.
    """

    letter: str
    letters: Mapping[str, str]
    numbers: Mapping[str, float]
    known: str | None
    nearest: str
    members: tuple[Explained, ...]
    closed: tuple[Closed, ...]
    rest: Mapping[str, float] | None
    rest_letters: Mapping[str, str]
    jobs: int
    unknown: int
    unknown_work: float
    at_once: float
    mean_wait_s: float
    fitting: float
    over: Mapping[str, float] = field(default_factory=dict)
    stopped: Mapping[str, float] = field(default_factory=dict)

    @property
    def worst(self) -> str:
        """The resource of which most is held beyond the machine."""
        return max(self.over, key=self.over.__getitem__, default=PROCESSORS)

    @property
    def json(self) -> dict[str, Any]:
        """The grade as `nearness` of whatif.json."""
        return {
            "grade": self.letter,
            "letters": dict(self.letters),
            "numbers": dict(self.numbers),
            "known": self.known,
            "nearest": self.nearest,
            "closed": [
                {"from": one.begin, "to": one.end, "jobs": one.jobs, "share": one.share}
                for one in self.closed
            ],
            "rest": None if self.rest is None else dict(self.rest),
            **({"over": dict(self.over), "stopped": dict(self.stopped)} if self.over else {}),
        }


@dataclass(frozen=True)
class _Marks:
    """Letters and numbers of machines that are measured together."""

    letter: str
    letters: Mapping[str, str]
    numbers: Mapping[str, float]
    members: tuple[Explained, ...]


def grade(
    machines: Sequence[Record],
    mine: tuple[Order, Mode] | None = None,
    stops: Sequence[tuple[int, int]] = (),
) -> Grade:
    """Return the grade of a record.

    Args:
        machines: The record, or the records of its pools, whose sums are added.
        mine: The reader's own order and mode, compared beside the usual ones.
        stops: Begin and end in s of closed times that are known from elsewhere.
    """
    measured = [measure(one) for one in machines]
    whole = _marks(machines, measured, mine)
    times = [
        tuple(closed(record, one, *stop) for stop in stops)
        for record, one in zip(machines, measured, strict=True)
    ]
    if not stops and whole.letter not in ("A", NO_GRADE):
        times = [closed_times(record, one) for record, one in zip(machines, measured, strict=True)]
    letter, rest = whole.letter, None
    if any(times):
        left = [without(record, of) for record, of in zip(machines, times, strict=True)]
        rest = _marks(left, [measure(one) for one in left], mine)
        letter = rest.letter if rest.letter == NO_GRADE else max(rest.letter, _LETTERS[1])
    nearest = whole.members[0]
    known = np.concatenate([one.known for one in machines])
    work = np.concatenate([one.cpu * one.run for one in machines])
    waits = np.concatenate([one.start - one.arrive for one in machines])[known]
    return Grade(
        letter=letter,
        letters=whole.letters,
        numbers=whole.numbers,
        known=nearest.name if nearest.share >= KNOWN else None,
        nearest=nearest.name if nearest.starts else "",
        members=whole.members,
        closed=_together(times),
        rest=None if rest is None else rest.numbers,
        rest_letters={} if rest is None else rest.letters,
        jobs=len(known),
        unknown=int((~known).sum()),
        unknown_work=float(work[~known].sum() / work.sum()),
        at_once=float((waits == 0).mean()) if len(waits) else 0.0,
        mean_wait_s=float(waits.mean()) if len(waits) else 0.0,
        fitting=sum(one.fitting for one in measured) / max(sum(one.waiting for one in measured), 1),
        **_by_resource(machines, pooled(measured)),
    )


def _by_resource(machines: Sequence[Record], sums: Measures) -> dict[str, Mapping[str, float]]:
    """Return `over` and `stopped` of a grade."""
    resources = machines[0].resources
    if resources is None:
        return {}
    names = (*resources.names, ANY_GPUS, SEVERAL)
    over = dict(zip(resources.names, _over(sums), strict=True))
    if any((one.asks[:, -1] > 0).any() for one in machines):
        types = [name for name in resources.names if name.startswith(TYPE)]
        over[GPUS] = over[types[0]]
        over = {name: of for name, of in over.items() if name not in types}
    waited = (sums.stopped / max(sums.waiting, 1)).tolist()
    return {
        "over": over,
        "stopped": {name: of for name, of in zip(names, waited, strict=True) if of > 0},
    }


def _marks(
    machines: Sequence[Record], measured: Sequence[Measures], mine: tuple[Order, Mode] | None
) -> _Marks:
    """Return the numbers of a grade and their letters, over all machines."""
    sums = pooled(measured)
    found = explain(machines, members(mine))
    numbers = {
        **_shares(sums),
        "twins": sums.twins,
        "starts": sums.starts,
        "reaction": sums.reaction,
        "delta": sums.delta,
        "explained": found[0].share,
        "idle": found[0].idle,
    }
    values = dict(numbers)
    if (cycle := min(cycle_of(machines), MOST_DELTA)) > sums.delta:
        values |= _shares(pooled([measure(one, cycle) for one in machines]))
    used = {
        "over": True, "open": True, "odd": True,
        "passed": sums.twins >= LEAST_TWINS,
        "reaction": len(sums.alone) >= LEAST_ALONE,
    }  # fmt: skip
    letters = {name: _letter(values[name], LIMITS[name]) for name in LIMITS if used.get(name)}
    if found[0].share >= KNOWN:
        sound = max(letters.values()) == _LETTERS[0]
        letters["idle"] = _LETTERS[0] if sound else _letter(numbers["idle"], LIMITS["idle"])
    letter = max(letters.values()) if sums.starts >= LEAST_STARTS else NO_GRADE
    return _Marks(letter, letters, numbers, found)


def _shares(sums: Measures) -> dict[str, float]:
    return {
        "over": float(max(_over(sums))),
        "open": sums.open / max(sums.waiting, 1),
        "passed": sums.passed / max(sums.twins, 1),
        "odd": sums.odd / max(sums.starts, 1),
    }


def _over(sums: Measures) -> list[float]:
    """Return the share of what was held of each resource that was beyond the machine."""
    return (sums.over / np.maximum(sums.held, 1)).tolist()  # type: ignore[no-any-return]


def _letter(value: float, limits: tuple[float, float, float]) -> str:
    return _LETTERS[sum(value > limit for limit in limits)]


def _together(times: Sequence[Sequence[Closed]]) -> tuple[Closed, ...]:
    """Return the closed times of all pools; a time that several pools share is listed once."""
    found: dict[tuple[int, int], list[Closed]] = {}
    for one in (one for of in times for one in of):
        found.setdefault((one.begin, one.end), []).append(one)
    return tuple(
        Closed(*span, sum(one.jobs for one in same), max(one.share for one in same))
        for span, same in sorted(found.items())
    )
