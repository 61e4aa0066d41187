"""Fields of a live state: their ranges, and checked reading of numbers and lists from JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, nearest
from hindcast.pipeline.settings.ranges import shown

Ints = NDArray[np.int64]

WEEK_S: Final = 7 * 86_400


@dataclass(frozen=True)
class Whole:
    """The range of a whole number in a state.

    Attributes:
        low: Smallest number.
        high: Largest number.
        unit: What is counted.
        needed: Whether the key must be there.
    """

    low: int
    high: int
    unit: str
    needed: bool = True


_TIME: Final = Whole(-(10**12), 10**12, "seconds")
_SPAN: Final = Whole(1, 10**9, "seconds")
_PROCESSORS: Final = Whole(1, 10**7, "processors")

# Keys of the objects in a state. None stands for a name, a text or a whole number.
STATE: Final[Mapping[str, Whole | None]] = {
    "id": None,
    "now": _TIME,
    "processors": _PROCESSORS,
    "free": Whole(-(10**7), 10**7, "processors", needed=False),
    "clock_s": Whole(0, WEEK_S - 1, "seconds", needed=False),
    "arrivals": Whole(0, 10**6, "jobs", needed=False),
    "first_submitted": Whole(-(10**12), 10**12, "seconds", needed=False),
}
WAITING: Final[Mapping[str, Whole | None]] = {
    "id": None,
    "submitted": _TIME,
    "processors": _PROCESSORS,
    "requested": _SPAN,
    "user": None,
    "queue": Whole(0, 10**9, "", needed=False),
}
RUNNING: Final[Mapping[str, Whole | None]] = {
    "id": None,
    "started": _TIME,
    "processors": _PROCESSORS,
    "requested": _SPAN,
    "user": None,
}
COMPLETED: Final[Mapping[str, Whole | None]] = {
    "user": None,
    "run": _SPAN,
    "processors": Whole(1, 10**7, "processors", needed=False),
    "requested": Whole(1, 10**9, "seconds", needed=False),
}
RESERVATION: Final[Mapping[str, Whole | None]] = {
    "id": None,
    "start": Whole(-(10**12), 10**12, "seconds", needed=False),
    "spare": Whole(-(10**7), 10**7, "processors", needed=False),
}
LISTS: Final[Mapping[str, Mapping[str, Whole | None]]] = {
    "waiting": WAITING, "running": RUNNING, "completed": COMPLETED,
}  # fmt: skip
OTHERS: Final = ("reservation", "expects_arrivals", "done")
OF_SEVERAL: Final = ("capacity", "pools")  # keys of a state of several resources
JOB_OF_SEVERAL: Final = ("gpus", "gpu_types", "memory", "pool")  # keys of its jobs


def fail(where: str, reason: str) -> NoReturn:
    """Raise InputError with a reason behind the name of a state."""
    raise InputError(f"{where}: {reason}")


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value in words, for a message."""
    kinds: Mapping[type, str] = {dict: "an object", list: "a list", str: "a text"}
    return kinds.get(type(value), shown(value))


def check_keys(objects: Sequence[Any], known: Sequence[str], where: str, at: str) -> None:
    """Raise InputError for a key that is not known."""
    unknown = set().union(*objects).difference(known)
    if unknown:
        name = min(unknown)
        close = nearest(name, known)
        hint = f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
        number = next(i for i, item in enumerate(objects) if name in item)
        fail(
            where, f"{f'{at}[{number}]' if at else 'the state'} has an unknown key {name!r}; {hint}"
        )


def read_jobs(
    state: Mapping[str, Any], name: str, where: str, more: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return a list of objects of the state, which may have `more` keys than processors need.

    Only `waiting` must be there.
    """
    jobs = state.get(name)
    if jobs is None:
        if name == "waiting":
            fail(where, f"{name} is missing, expected a list of jobs in order of arrival")
        return []
    if type(jobs) is not list:
        fail(where, f"{name} is {kind_of(jobs)}, expected a list of objects")
    if not set(map(type, jobs)) <= {dict}:
        i = next(i for i, job in enumerate(jobs) if type(job) is not dict)
        fail(where, f"{name}[{i}] is {kind_of(jobs[i])}, expected an object")
    check_keys(jobs, (*LISTS[name], *more), where, name)
    return jobs


def _expected(limits: Whole) -> str:
    unit = f" of {limits.unit}" if limits.unit else ""
    return f"expected a whole number{unit} from {limits.low:,} to {limits.high:,}"


def _is_whole(value: Any, limits: Whole) -> bool:
    return type(value) is int and limits.low <= value <= limits.high


def read_number(
    item: Mapping[str, Any], name: str, where: str, limits: Whole | None = None, at: str = ""
) -> int | None:
    """Return a whole number of an object; None for an optional number that is absent."""
    value, limits = item.get(name), limits or STATE[name]
    assert limits is not None
    if value is None and not limits.needed:
        return None
    if not _is_whole(value, limits):
        fault = f"is {shown(value)}" if name in item else "is missing"
        fail(where, f"{at}{name} {fault}, {_expected(limits)}")
    return int(value)  # type: ignore[arg-type]


def read_values(
    jobs: Sequence[Mapping[str, Any]], key: str, limits: Whole, where: str, at: str
) -> list[int]:
    """Return a number of every job; 0 for an optional number that is absent."""
    values: list[Any]
    try:
        values = list(map(itemgetter(key), jobs))
    except KeyError:
        values = [job.get(key) for job in jobs]
    present = values
    if not limits.needed and not set(map(type, values)) <= {int}:
        present = [value for value in values if value is not None]
        values = [0 if value is None else value for value in values]
    if present and not (
        set(map(type, present)) == {int}
        and limits.low <= min(present)
        and max(present) <= limits.high
    ):
        i = next(
            i
            for i, job in enumerate(jobs)
            if not _is_whole(job.get(key), limits) and (limits.needed or job.get(key) is not None)
        )
        fault = f"is {shown(jobs[i][key])}" if key in jobs[i] else "is missing"
        fail(where, f"{at}[{i}].{key} {fault}, {_expected(limits)}")
    return values


def read_flag(state: Mapping[str, Any], name: str, where: str) -> bool:
    """Return a flag of the state, true where it is left out."""
    value = state.get(name, True)
    if type(value) is not bool:
        fail(where, f"{name} is {shown(value)}, expected true or false")
    return value


def read_names(waiting: Sequence[Mapping[str, Any]], where: str) -> tuple[str | int, ...]:
    """Return the ids of the waiting jobs, which must differ."""
    names = tuple(job.get("id") for job in waiting)
    if not set(map(type, names)) <= {str, int}:
        i = next(i for i, name in enumerate(names) if type(name) not in {str, int})
        fault = f"is {shown(names[i])}" if "id" in waiting[i] else "is missing"
        fail(where, f"waiting[{i}].id {fault}, expected a text or a whole number")
    if len(set(names)) < len(names):
        i = next(i for i, name in enumerate(names) if name in names[:i])
        j = names.index(names[i])
        fail(
            where,
            f"waiting[{i}].id is {shown(names[i])}, as waiting[{j}].id; expected distinct ids",
        )
    return names  # type: ignore[return-value]


def check_jobs(
    columns: Mapping[tuple[str, str], Ints],
    names: Sequence[Any],
    now: int,
    processors: int,
    where: str,
) -> None:
    """Raise InputError for jobs of the future, out of order, or wider than the machine."""
    submit = columns["waiting", "submitted"]
    for name, key in (("waiting", "submitted"), ("running", "started")):
        late = np.flatnonzero(columns[name, key] > now)
        if len(late):
            value = columns[name, key][late[0]]
            fail(where, f"{name}[{late[0]}].{key} is {value}, expected at most now, {now}")
    wrong = np.flatnonzero(submit[1:] < submit[:-1])
    if len(wrong):
        i = int(wrong[0]) + 1
        fail(
            where,
            f"waiting[{i}].submitted is {submit[i]}, but waiting[{i - 1}] was submitted at "
            f"{submit[i - 1]}; expected the jobs in order of arrival",
        )
    for name in ("waiting", "running"):
        cpu = columns[name, "processors"]
        too_wide = np.flatnonzero(cpu > processors)
        if len(too_wide):
            i = int(too_wide[0])
            job_name = f" (job {shown(names[i])})" if name == "waiting" else ""
            fail(
                where,
                f"{name}[{i}].processors is {cpu[i]}{job_name}, expected at most {processors}, the "
                "processors of the machine",
            )
