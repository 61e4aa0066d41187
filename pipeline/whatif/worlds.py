"""Changed worlds: another machine, other requests, a limit, or other options of the scheduler.

`--change A,B` is one world in which both hold. Changes are applied in the order of the table.
Numbers have at most nine digits, or twelve without a unit, and six decimals.

    processors=+10%   -10%, +8, -8, 128: the machine; jobs that no longer fit on it are removed
    gpus=+10%         the same for GPUs; for types of them gpus:TYPE=+4, or all by a percentage
    memory=+32GiB     the same for memory, in KiB to PiB
    refuse=12h        jobs that request more never arrive
    limit=12h         longer jobs become chains: a part is submitted when the part before it ends
    requests=exact    requests become run times; 2x: twice the run time; 2x,capped: at most the
                      request; error-20%: a fifth less beyond the run time
    depth=50          number of jobs that are tested for backfilling, the first of them reserved
    reservations=all  every tested job reserves; K: the first K that cannot start

A policy is played from the same moment with the same running and waiting jobs in both worlds. Jobs
that run at the beginning stay whole and are never removed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.scenarios.queue.asks import GPUS, MEMORY, PROCESSORS, TYPE, too_wide
from hindcast.pipeline.statistics.intervals import Interval, mean_interval
from hindcast.pipeline.whatif.orders import ALL, Mode
from hindcast.pipeline.whatif.outcomes import counted
from hindcast.pipeline.whatif.record import Array, Record
from hindcast.pipeline.whatif.resources.amounts import Resources, asks_of
from hindcast.pipeline.whatif.resources.capacities import mib_of
from hindcast.pipeline.whatif.run import PER_JOB, UNPLANNED, Run, with_histories

Requests = Callable[[Array, Array], Array]  # of run times and requests, (N,) each

_NUMBER: Final = r"(\d{1,9}(?:\.\d{1,6})?)"
_MOST_TIMES: Final = 10_000  # as long as the run time; with six decimals products fit int64
_MOST_AMOUNT: Final = 10**12  # of processors, GPUs or MiB
_UNITS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_EXPECTED: Final = {
    PROCESSORS: "+10%, -10%, +8, -8 or 128",
    GPUS: "+10%, -10%, +8, -8 or 128",
    MEMORY: "+10%, -10%, +32GiB, -32GiB or 512GiB",
    "refuse": "a time such as 12h, 90m or 2d",
    "limit": "a time such as 12h, 90m or 2d",
    "requests": "exact, 2x, 2x,capped or error-20%",
    "depth": "a whole number of jobs such as 50",
    "reservations": "all, or a whole number of jobs from 1 on",
}  # in the order in which they are applied


@dataclass(frozen=True)
class World:
    """A run in a changed world.

    Attributes:
        name: The change as it was written.
        run: The run there.
        removed: Number of counted jobs of the unchanged run that never arrive.
        chains: Number of counted jobs that became chains.
        options: Mode that a policy with a given mode has there.
    """

    name: str
    run: Run
    removed: int
    chains: int
    options: Callable[[Mode], Mode]


@dataclass(frozen=True)
class Change:
    """A change of the world that has been read.

    Attributes:
        name: The change as it was written.
        parts: What is changed, and the value as it was written.
    """

    name: str
    parts: dict[str, str]


def read_change(text: str) -> Change:
    """Return the change that a text states. Raises InputError for one that is not in the table."""
    parts: dict[str, str] = {}
    last = ""
    for part in text.split(","):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals and name == "capped" and last == "requests":
            parts[last] += ",capped"
            continue
        if name not in _EXPECTED and not name.startswith(TYPE):
            raise unknown_name("change", name, [*_EXPECTED, f"{TYPE}TYPE"])
        if name in parts:
            raise InputError(f"--change {text}: {name} stands there twice, expected once")
        parts[name], last = value, name
    change = Change(text, parts)
    for name in parts:
        _READ[_kind(name)](change, name)
    return change


def changed(change: Change, record: Record, run: Run) -> World:
    """Return the world in which a run of a record is changed.

    Raises InputError if no counted job is left.
    """
    new = run
    requests: Requests = _unchanged
    if any(_kind(name) in _AMOUNTS for name in change.parts):
        new = _on_another(change, new)
    if "refuse" in change.parts:
        new = _without(new, new.requested > _time(change, "refuse"))
    removed = int(run.counted.sum() - new.counted.sum())
    if not new.counted.any():
        raise InputError(f"--change {change.name}: no job is left, expected one at least")
    chains = 0
    if "limit" in change.parts:
        limit = _time(change, "limit")
        new, chains = _split(new, limit)
        requests = _limited(limit)
    if "requests" in change.parts:
        of_change = _requests(change)
        new = replace(new, requested=of_change(new.run, new.requested))
        requests = _after(requests, of_change)

    if not np.array_equal(new.requested, run.requested):
        new = _with_keys(record, new, requests)
    return World(change.name, new, removed, chains, _options(change))


@dataclass(frozen=True)
class Comparison:
    """A policy in a changed and in the unchanged world.

    Attributes:
        jobs: Number of counted jobs in the changed world.
        mean: Mean there.
        same_jobs: Mean of the same jobs in the unchanged world.
        difference: mean - same_jobs, with an interval over the weeks of submission; without one
            for less than two weeks.
    """

    jobs: int
    mean: float
    same_jobs: float
    difference: Interval


def compare(
    run: Run, starts: Array, world: World, world_starts: Array, outcome: str = "slowdown"
) -> Comparison:
    """Compare a policy in a changed world with itself in the unchanged one.

    Args:
        run: The unchanged run.
        starts: Starts of its N jobs in s, (N,).
        world: The changed world.
        world_starts: Starts of the jobs there, in s.
        outcome: "slowdown" (bounded) or "wait" (s), of the jobs that count in the changed world.
    """
    before, after = counted(run, starts), counted(world.run, world_starts)
    place = {int(row): i for i, row in enumerate(run.row[before.job])}
    same = [place[int(row)] for row in world.run.row[after.job]]
    changed_values, values = getattr(after, outcome), getattr(before, outcome)[same]
    week = np.maximum(world.run.submit[after.job] - run.now, 0) // (7 * 86_400)
    # A week counts by its jobs: the mean of these sums over the weeks is that of the jobs.
    weeks_per_job = (int(week.max()) + 1) / len(week)
    by_week = [np.bincount(week, of) * weeks_per_job for of in (changed_values, values)]
    difference = mean_interval(by_week[0] - by_week[1])
    mean, same_jobs = float(changed_values.mean()), float(values.mean())
    return Comparison(len(values), mean, same_jobs, difference._replace(value=mean - same_jobs))


def _wrong(change: Change, name: str) -> InputError:
    value = change.parts[name]
    few = ", of nine digits and six decimals at the most" if re.search(r"\d{7}", value) else ""
    return InputError(f"--change {name}={value}: expected {_EXPECTED[_kind(name)]}{few}")


def _kind(name: str) -> str:
    return GPUS if name.startswith(TYPE) else name


def _amount(change: Change, name: str) -> Callable[[int], int]:
    """Return the function from an amount of the machine to that of the changed one."""
    found = re.fullmatch(r"([+-]?)(.*?)(%?)", change.parts[name].lstrip("="))
    assert found is not None
    sign = -1 if found[1] == "-" else 1
    if found[3]:
        if not found[1] or not re.fullmatch(_NUMBER, found[2]):
            raise _wrong(change, name)
        number = sign * Fraction(found[2])
        return lambda amount: int((2 * amount * (100 + number) + 100) // 200)
    more = mib_of(found[2]) if name == MEMORY else None
    if name != MEMORY and re.fullmatch(r"\d{1,12}", found[2]):
        more = int(found[2])
    if more is None:
        raise _wrong(change, name)
    relative, by = bool(found[1]), sign * more
    return lambda amount: by + relative * amount


def _on_another(change: Change, run: Run) -> Run:
    """Return a run on the machine of a change, without the jobs that are too wide for it."""
    resources = run.resources or Resources((PROCESSORS,), np.array([run.processors]), np.array([1]))
    types = [name for name in resources.names if name.startswith(TYPE)]
    capacity = resources.capacity // resources.units
    for part in (name for name in change.parts if _kind(name) in _AMOUNTS):
        new_amount, names = _amount(change, part), [part]
        if part == GPUS and types and change.parts[part].endswith("%"):
            names = types  # a share of all GPUs is that share of every type
        for name in names:
            if name not in resources.names:
                known = ", ".join(resources.names)
                raise InputError(
                    f"--change {change.name}: the machine has no {name} that could be changed, "
                    f"expected one of {known}; --capacity gives it GPUs and memory"
                )
            place = resources.names.index(name)
            before = int(capacity[place])
            amount = new_amount(before)
            if not 1 <= amount <= _MOST_AMOUNT:
                limit = "at least 1" if amount < 1 else f"at most {_MOST_AMOUNT:,}"
                raise InputError(
                    f"--change {change.name}: the machine has {before:,} {name}, expected {limit} "
                    "after the change"
                )
            capacity[place] = amount
    machine = replace(resources, capacity=capacity * resources.units)
    new = replace(run, processors=int(capacity[resources.names.index(PROCESSORS)]))
    if run.resources is None:
        return _without(new, new.cpu > new.processors)
    too_wide_somewhere = too_wide(asks_of(run.asks), machine.capacity, machine.shape) >= 0
    return _without(replace(new, resources=machine), too_wide_somewhere)


def _time(change: Change, name: str) -> int:
    """Return a time in whole seconds, at least 1."""
    found = re.fullmatch(_NUMBER + r"\s*([a-z]*)", change.parts[name])
    if not found or found[2] not in _UNITS:
        raise _wrong(change, name)
    seconds = int(Fraction(found[1]) * _UNITS[found[2]])
    if seconds < 1:
        raise _wrong(change, name)
    return seconds


def _after(first: Requests, second: Requests) -> Requests:
    return lambda run, requested: second(run, first(run, requested))


def _unchanged(_: Array, requested: Array) -> Array:
    return requested


def _requests(change: Change) -> Requests:
    """Return the function from run times and requests in s to the changed requests, (N,) each."""
    value = change.parts["requests"]
    if value == "exact":
        return lambda run, _: run.copy()
    if found := re.fullmatch(_NUMBER + r"x(,\s*capped)?", value):
        factor = Fraction(found[1])
        if not 0 < factor <= _MOST_TIMES:
            raise _wrong(change, "requests")
        top, bottom, capped = factor.numerator, factor.denominator, bool(found[2])

        def times(run: Array, requested: Array) -> Array:
            longer = np.maximum(-(-run * top // bottom), 1)
            return np.minimum(longer, requested) if capped else longer

        return times
    if found := re.fullmatch("error-" + _NUMBER + "%", value):
        share = 100 - Fraction(found[1])
        if share < 0:
            raise _wrong(change, "requests")
        top, bottom = share.numerator, 100 * share.denominator
        return lambda run, requested: np.maximum(run - (run - requested) * top // bottom, 1)
    raise _wrong(change, "requests")


def _whole(change: Change, name: str) -> int:
    """Return a value as a whole number of at most twelve digits."""
    if not re.fullmatch(r"\d{1,12}", change.parts[name]):
        raise _wrong(change, name)
    return int(change.parts[name])


def _reservations(change: Change) -> int:
    if change.parts["reservations"] == "all":
        return ALL
    number = _whole(change, "reservations")
    if number < 1:
        raise _wrong(change, "reservations")
    return number


def _options(change: Change) -> Callable[[Mode], Mode]:
    """Return the function from the mode of a policy to that in the changed world."""
    found = {}
    if "depth" in change.parts:
        found["depth"] = _whole(change, "depth")
    if "reservations" in change.parts:
        found["reservations"] = _reservations(change)
    return lambda mode: replace(mode, **found)


_READ: Final[dict[str, Callable[[Change, str], object]]] = {
    PROCESSORS: _amount,
    GPUS: _amount,
    MEMORY: _amount,
    "refuse": _time,
    "limit": _time,
    "requests": lambda change, _: _requests(change),
    "depth": _whole,
    "reservations": lambda change, _: _reservations(change),
}
_AMOUNTS: Final = (PROCESSORS, GPUS, MEMORY)


def _without(run: Run, gone: NDArray[np.bool_]) -> Run:
    """Return a run without jobs that do not run at its beginning."""
    kept = ~gone
    kept[: run.running] = True
    return replace(run, **{name: getattr(run, name)[kept] for name in PER_JOB})


def _limited(limit: int) -> Requests:
    return lambda run, requested: np.where(run <= limit, np.minimum(requested, limit), requested)


def _split(run: Run, limit: int) -> tuple[Run, int]:
    """Return a run in which jobs longer than a limit in s are chains, and the counted ones."""
    arrives = np.arange(len(run.row)) >= run.running
    whole = np.flatnonzero(arrives & (run.run > limit))
    requested = np.where(arrives, _limited(limit)(run.run, run.requested), run.requested)
    parts = -(-run.run[whole] // limit)
    later = np.repeat(whole, parts - 1)  # of every later part, its job
    number = np.concatenate([np.arange(1, count) for count in parts] or [later])
    longest = np.maximum(run.requested, run.run)
    columns: dict[str, Any] = {name: np.concatenate([getattr(run, name), getattr(run, name)[later]])
               for name in PER_JOB}  # fmt: skip
    first, size = slice(0, len(run.row)), len(run.row)
    columns["run"][whole] = limit
    columns["run"][size:] = np.minimum(run.run[later] - number * limit, limit)
    columns["requested"][first] = requested
    columns["requested"][whole] = np.minimum(longest[whole], limit)
    columns["requested"][size:] = np.minimum(longest[later] - number * limit, limit)
    columns["arrive"][size:] = UNPLANNED
    columns["counted"][size:] = False
    place = size + np.arange(len(later))
    columns["chain"][whole] = size + np.cumsum(parts - 1) - (parts - 1)
    ends = np.append(later[1:] != later[:-1], [True] * bool(len(later))).astype(bool)
    columns["chain"][size:] = np.where(ends, -1, place + 1)
    return replace(run, **columns), int(run.counted[whole].sum())


def _with_keys(record: Record, run: Run, requests: Requests) -> Run:
    """Return a run whose similar jobs are those of the changed requests."""
    requested = requests(record.run, record.requested)
    user, cpu, times = (
        np.concatenate([one, other])
        for one, other in (
            (record.user, run.user), (record.cpu, run.cpu), (requested, run.requested)
        )
    )  # fmt: skip
    size = np.unique(cpu * (int(times.max()) + 1) + times, return_inverse=True)[1].reshape(-1)
    key = np.unique(user * (int(size.max()) + 1) + size, return_inverse=True)[1].reshape(-1)
    key = np.where(user < 0, -1, key)
    known = replace(record, requested=requested, key=key[: len(requested)])
    return with_histories(known, replace(run, key=key[len(requested) :]))
