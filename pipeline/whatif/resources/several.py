"""Several resources of a compiled run: what jobs ask for, hold and leave free.

The compiled functions of a run take them as `many`, which is None where processors are all there
is. They are compiled for both, so that such a run costs what it did without them.

Resources and placements are those of hindcast.pipeline.scenarios.queue.fitting.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_type_hints

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.queue import fitting
from hindcast.pipeline.scenarios.queue.asks import equivalents
from hindcast.pipeline.scenarios.queue.fitting import Shape
from hindcast.pipeline.simulation.kernel import Ints, compiled, compiled_type
from hindcast.pipeline.whatif.resources.amounts import Resources, asks_of

if TYPE_CHECKING:
    from hindcast.pipeline.whatif.run import Run

_F = TypeVar("_F", bound=Callable[..., Any])


class Many(NamedTuple):
    """K resources of N jobs, the processors first."""

    shape: Shape
    asks: Ints  # (N (K + 1),) what each job asks for, and its GPUs of any type
    milli: Ints  # (N,) equivalent processors in thousandths
    kind: Ints  # (N,) placement with which a job started
    estimated: Ints  # (N,) the running jobs, in the order of Running.end
    chosen: Ints  # (N,) the jobs that start, in the order of Desk.ends
    free: Ints  # (K,) what no running job holds; may be below 0
    left: Ints  # (K,) the same within a decision, after the jobs that start
    spare: Ints  # (K,) what the reservation leaves
    profile: Ints  # (M K,) what is free from the begin of each segment of Desk.time on


def compiled_for_both(**options: Any) -> Callable[[_F], _F]:
    """Return a decorator that compiles a function with `many: Many | None` for both of them."""

    def decorate(function: _F) -> _F:
        kinds = get_type_hints(function, include_extras=True)
        made = []
        for own in (types.none, _MANY):
            of = [own if name == "many" else compiled_type(one) for name, one in kinds.items()]
            made.append(of[-1](*of[:-1]))
        both: _F = compiled(made, **options)(function)
        return both

    return decorate


_MANY: Final = compiled_type(Many)


@compiled(_nrt=False)
def row_of(many: Many, job: int) -> int:
    """Return the place of what a job asks for in `asks`."""
    return (many.shape.resources + 1) * job


@compiled(_nrt=False)
def copy(source: Ints, of: int, target: Ints, to: int, shape: Shape) -> None:
    """Copy the amount of each resource from a place on to another place."""
    for k in range(shape.resources):
        target[to + k] = source[of + k]


@compiled(_nrt=False)
def place(many: Many, job: int, have: Ints) -> int:
    """Return the placement for which an amount (K,) suffices, or NOWHERE."""
    return fitting.place(have, 0, many.asks, row_of(many, job), many.shape)


@compiled(_nrt=False)
def place_safely(many: Many, job: int, in_time: bool) -> int:
    """Return the placement that does not delay the reservation, or NOWHERE."""
    return fitting.place_safely(
        many.left, 0, many.spare, 0, many.asks, row_of(many, job), many.shape, in_time
    )


@compiled(_nrt=False)
def take(many: Many, job: int, have: Ints, at: int, kind: int, sign: int) -> None:
    """Subtract what a job takes with a placement (sign 1), or add it (sign -1)."""
    fitting.take(have, at, many.asks, row_of(many, job), many.shape, kind, sign)


@compiled_for_both(_nrt=False)
def place_recorded(many: Many | None, job: int) -> None:
    """Set the placement of a job that the record starts: the first that suffices, or the first."""
    if many is not None:
        many.kind[job] = fitting.place_running(
            many.free, 0, many.asks, row_of(many, job), many.shape
        )


def kinds_of(run: "Run", many: Many | None) -> Ints:
    """Return the placements of the jobs of a run, (N,)."""
    return np.zeros(len(run.row), np.int64) if many is None else many.kind


def lay_many(
    resources: Resources | None, asks: Ints, estimated: Ints, segments: int = 0
) -> Many | None:
    """Return resources of which no job holds any, None for processors alone.

    Args:
        resources: The resources.
        asks: What the jobs ask for, (N, K + 1).
        estimated: See `many_of`.
        segments: Most segments of a profile.
    """
    if resources is None:
        return None
    shape, capacity = resources.shape, resources.capacity
    of_jobs = np.zeros((2, len(asks)), np.int64)
    amounts = np.zeros((2, len(capacity)), np.int64)
    return Many(
        shape=shape, asks=asks.reshape(-1).copy(),
        milli=equivalents(asks_of(asks), np.maximum(capacity, 1), shape), kind=of_jobs[0],
        estimated=estimated, chosen=of_jobs[1], free=capacity.copy(), left=amounts[0],
        spare=amounts[1], profile=np.zeros(segments * len(capacity), np.int64),
    )  # fmt: skip


def many_of(run: "Run", estimated: Ints, *, planning: bool) -> Many | None:
    """Return the resources of a run, None for processors alone.

    Jobs that run at its beginning have their placements: in order of recorded start, the first that
    suffices.

    Args:
        run: The run.
        estimated: Room for the running jobs in the order of Running.end, (N,).
        planning: Whether several jobs hold reservations.
    """
    segments = 3 * len(run.row) + 4 if planning else 0
    many = lay_many(run.resources, run.asks, estimated, segments)
    if many is None:
        return None
    capacity = many.free.copy()
    for job in np.argsort(run.start[: run.running], kind="stable"):
        place_recorded(many, job)
        take(many, job, many.free, 0, many.kind[job], 1)
    many.free[:] = capacity
    return many
