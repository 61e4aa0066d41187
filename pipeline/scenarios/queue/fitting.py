"""Compiled rules of `queue` for several resources: what suffices, and what is safe.

Resources are numbered 0 .. K-1, 0 are the processors. A vector has an amount of each. The GPU types
are the resources first_type .. last_type - 1, in the order in which a job that takes GPUs of any
type tries them. What a job asks for is a row of K + 1 numbers: the vector, then the GPUs of any
type, which are all of one type.

Rows and vectors lie in flat arrays, each from a place on: `have, at` or `asks, of`.
"""

from typing import Final, NamedTuple

from hindcast.pipeline.simulation.kernel import Ints, compiled

NOWHERE: Final = -1  # a placement: nothing suffices
AS_ASKED: Final = 0  # a placement of a job without GPUs of any type; else it is the type


class Shape(NamedTuple):
    """Numbers of the resources.

    Attributes:
        resources: Number of resources, K.
        first_type: The first GPU type.
        last_type: The resource after the last GPU type; equal to `first_type` without types.
    """

    resources: int
    first_type: int
    last_type: int


@compiled(_nrt=False)
def suffices(
    have: Ints, at: int, spare: Ints, beside: int, asks: Ints, of: int, shape: Shape, kind: int
) -> bool:
    """Return whether two vectors both suffice for a job that takes GPUs of any type from `kind`.

    A resource that the job does not ask for never stops it, however far below 0 it is.
    """
    for k in range(shape.resources):
        ask = asks[of + k]
        if k == kind:
            ask += asks[of + shape.resources]
        if ask > 0 and (ask > have[at + k] or ask > spare[beside + k]):
            return False
    return True


@compiled(_nrt=False)
def place_in_both(
    have: Ints, at: int, spare: Ints, beside: int, asks: Ints, of: int, shape: Shape
) -> int:
    """Return the placement for which two vectors both suffice: the first type, or NOWHERE."""
    if asks[of + shape.resources] == 0:
        return AS_ASKED if suffices(have, at, spare, beside, asks, of, shape, AS_ASKED) else NOWHERE
    for kind in range(shape.first_type, shape.last_type):
        if suffices(have, at, spare, beside, asks, of, shape, kind):
            return kind
    return NOWHERE


@compiled(_nrt=False)
def place(have: Ints, at: int, asks: Ints, of: int, shape: Shape) -> int:
    """Return the placement for which a vector suffices: the first such type, or NOWHERE."""
    return place_in_both(have, at, have, at, asks, of, shape)


@compiled(_nrt=False)
def place_running(have: Ints, at: int, asks: Ints, of: int, shape: Shape) -> int:
    """Return the placement of a job that the log starts: the first that suffices, or the first."""
    kind = place(have, at, asks, of, shape)
    if kind != NOWHERE:
        return kind
    return shape.first_type if asks[of + shape.resources] > 0 else AS_ASKED


@compiled(_nrt=False)
def place_safely(
    free: Ints, at: int, spare: Ints, beside: int, asks: Ints, of: int, shape: Shape, in_time: bool,
) -> int:  # fmt: skip
    """Return the first placement that does not delay a reservation, or NOWHERE.

    `in_time` is whether the job requests to end by the shadow; else its ask must be spare.
    """
    if in_time:
        return place(free, at, asks, of, shape)
    return place_in_both(free, at, spare, beside, asks, of, shape)


@compiled(_nrt=False)
def take(have: Ints, at: int, asks: Ints, of: int, shape: Shape, kind: int, sign: int) -> None:
    """Subtract what a job takes with a placement (sign 1), or add it (sign -1)."""
    for k in range(shape.resources):
        have[at + k] -= sign * asks[of + k]
    have[at + kind] -= sign * asks[of + shape.resources]


@compiled(_nrt=False)
def find_shadow(
    now: int, ends: Ints, first: int, jobs: Ints, begin: int, count: int,
    asks: Ints, asks_at: int, kinds: Ints, kinds_at: int, have: Ints, at: int, of: int,
    shape: Shape, never: int,
) -> int:  # fmt: skip
    """Return the shadow of a head, and turn the free amounts `have` into the spare ones.

    Args:
        now: The moment.
        ends: Estimated ends of the running jobs from `first` on, ascending.
        jobs: The running jobs from `begin` on, in that order.
        count: Number of running jobs.
        asks: Rows of K + 1 numbers by job, from `asks_at` on.
        kinds: Placements by job from `kinds_at` on.
        have: What is free, from `at` on.
        of: Place of the head's row in `asks`.
        shape: The resources.
        never: The shadow if the running jobs do not release enough.
    """
    width, shadow = shape.resources + 1, never
    for i in range(count):
        end = max(ends[first + i], now)
        if shadow != never and end > shadow:
            break
        job = jobs[begin + i]
        take(have, at, asks, asks_at + width * job, shape, kinds[kinds_at + job], -1)
        if shadow == never and place(have, at, asks, of, shape) != NOWHERE:
            shadow = end
    kind = place(have, at, asks, of, shape)
    take(have, at, asks, of, shape, max(kind, AS_ASKED), 1)
    return shadow
