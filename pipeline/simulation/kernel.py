"""The contract between a compiled scenario and everything that runs it.

An episode is held in two flat arrays, its memory::

    ints    int64    [ header | workload | mutable state ]
    floats  float64  [ header | workload | mutable state ]

ints[FRESH] and floats[TIME] have the same meaning in every scenario; each scenario defines the rest
of its header.

Flat memory has one type for every scenario, so one compiled episode loop, one recorder and one
batch serve all scenarios. A copy of the two arrays is a copy of the episode, and a batch is two
matrices. A scenario provides three compiled functions over the memory, and a policy provides one
that cannot see the memory, so it has no access to hidden state (signatures below)::

    observe(ints, floats, context, image, candidates, feasible) -> N     fills the buffers
    step(ints, floats, choice, step_outputs) -> status                   applies one choice
    outcome(ints, floats, outcomes) -> None                              fills the outcomes
    score(context, candidates, feasible, parameters, scores) -> None     a policy

A scenario may provide two more. `forget` allows policies that look ahead in a copy of the memory.
`values` is needed if the spec is `valued`::

    forget(ints, floats) -> time           removes the jobs that have not been seen yet; returns the
                                           time of the first of them, later than now, or infinity
    values(ints, floats, values) -> None   fills the value of every decision of a finished episode

A reference that needs what no observation has, such as known run times, is a rule over the memory
(hindcast.pipeline.simulation.memory_rules)::

    choose(ints, floats) -> choice                                       a reference

`observe` may update the buffers that it filled for the last observation of the same episode. A
caller passes the same buffers untouched, or clears ints[FRESH] first. `step` refers to the rows of
the last observation. The buffers may be longer than N; the length of `scores` is N.

`step_outputs` is [elapsed_s, reward, term, term, ...] with the terms in the order of
Spec.reward_terms. Functions are declared with explicit signatures and passed as first-class
functions, because only then does numba's on-disk cache serve a loop that takes functions as
arguments.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints, overload

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from hindcast.pipeline.notes import tell
from hindcast.pipeline.simulation.compiled_files import (
    digest_of,
    name_of,
    number_at_random,
    remove_others,
)

FRESH: Final = 0  # ints[FRESH]: 1 if the buffers hold the last observation of this episode
TIME: Final = 0  # floats[TIME]: seconds since the start of the episode

ELAPSED: Final = 0  # step_outputs[ELAPSED]: seconds that passed in this step
REWARD: Final = 1  # step_outputs[REWARD]
TERMS: Final = 2  # step_outputs[TERMS:]: reward terms

RUNNING: Final = 0
TERMINATED: Final = 1
TRUNCATED: Final = 2
INFEASIBLE: Final = -1  # the choice was refused and nothing was changed

INTS = types.Array(types.int64, 1, "C")
FLOATS = types.Array(types.float64, 1, "C")
IMAGE = types.Array(types.uint8, 1, "C")
ROWS = types.Array(types.float64, 2, "C")
MASK = types.Array(types.boolean, 1, "C")
INTS2 = types.Array(types.int64, 2, "C")
FLOATS3 = types.Array(types.float64, 3, "C")

# The same as annotations: mypy reads the first member, `compiled` the second.
Ints: TypeAlias = Annotated[NDArray[np.int64], INTS]
Floats: TypeAlias = Annotated[NDArray[np.float64], FLOATS]
Image: TypeAlias = Annotated[NDArray[np.uint8], IMAGE]
Rows: TypeAlias = Annotated[NDArray[np.float64], ROWS]
Mask: TypeAlias = Annotated[NDArray[np.bool_], MASK]
Ints2: TypeAlias = Annotated[NDArray[np.int64], INTS2]
Floats3: TypeAlias = Annotated[NDArray[np.float64], FLOATS3]
Images: TypeAlias = Annotated[NDArray[np.uint8], types.Array(types.uint8, 2, "C")]
Masks: TypeAlias = Annotated[NDArray[np.bool_], types.Array(types.boolean, 2, "C")]
Singles: TypeAlias = Annotated[NDArray[np.float32], types.Array(types.float32, 1, "C")]
Singles2: TypeAlias = Annotated[NDArray[np.float32], types.Array(types.float32, 2, "C")]

OBSERVE = types.int64(INTS, FLOATS, FLOATS, IMAGE, ROWS, MASK)
STEP = types.int64(INTS, FLOATS, types.int64, FLOATS)
OUTCOME = types.void(INTS, FLOATS, FLOATS)
FORGET = types.float64(INTS, FLOATS)
SCORE = types.void(FLOATS, ROWS, MASK, FLOATS, FLOATS)
CHOOSE = types.int64(INTS, FLOATS)

Compiled = Any  # a numba dispatcher
_F = TypeVar("_F", bound=Callable[..., Any])

_SAID: Final[list[str]] = []  # in this process


def _say_why_it_takes_long() -> None:
    line = (
        "compiling simulators for this machine; they are kept, and another command may have "
        "more of them to compile when it first runs"
    )
    if not _SAID and tell(line):
        _SAID.append(line)


def compiled_type(annotation: Any) -> Any:
    """Return the compiled type that an annotation states.

    int, float, bool and None are annotations, the names above, and named tuples of annotations.
    Every array must have exactly the stated type: inside a named tuple, a read-only array is not
    accepted for a writable one, nor the reverse.
    """
    if hasattr(annotation, "__metadata__"):
        return annotation.__metadata__[0]
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    members = [compiled_type(one) for one in _annotations(annotation).values()]
    if len(set(members)) == 1:
        return types.NamedUniTuple(members[0], len(members), annotation)  # type: ignore[no-untyped-call]
    return types.NamedTuple(members, annotation)  # type: ignore[no-untyped-call]


_PLAIN: Final = {
    int: types.int64, float: types.float64, bool: types.boolean, type(None): types.void,
}  # fmt: skip


def _annotations(of: Any) -> dict[str, Any]:
    return get_type_hints(of, include_extras=True)


def signature_of(function: Any) -> Any:
    """Return the signature that the annotations of a function state."""
    kinds = {name: compiled_type(one) for name, one in _annotations(function).items()}
    result = kinds.pop("return")
    return result(*kinds.values())


@overload
def compiled(signature: None = None, **options: Any) -> Callable[[_F], _F]: ...


@overload
def compiled(signature: Any, **options: Any) -> Callable[[Any], Compiled]: ...


def compiled(signature: Any = None, **options: Any) -> Callable[[Any], Compiled]:
    """Return a decorator that compiles a function for one signature and caches it on disk.

    Without a signature, the annotations of the function state it, see `compiled_type`::

        @compiled()
        def step(ints: Ints, floats: Floats, choice: int, step_outputs: Floats) -> int: ...

    The compiled function releases the GIL. The first one of a process that is not in the cache
    shows a line (hindcast.pipeline.notes), since all of them take up to a minute.

    numba reads a cached function before it checks whether the source has changed, and fails if the
    function used a named tuple that has been renamed or removed since; the function is then
    compiled again.

    A function is also compiled again if a function that it calls or a constant that it names has
    changed in another file (hindcast.pipeline.simulation.compiled_files).
    """
    kept = {"cache": True, "nogil": True, "error_model": "numpy", **options}
    number_at_random()

    def decorate(function: Any) -> Compiled:
        own = signature_of(function) if signature is None else signature
        name, digest = name_of(function), digest_of(function, own)
        function.__qualname__ = f"{name}-{digest}"  # numba names the files by it
        try:
            made = njit(own, **kept)(function)
        except (AttributeError, ImportError):
            njit(**kept)(function)._cache.flush()  # noqa: SLF001 - numba has no public way
            made = njit(own, **kept)(function)
        function.__qualname__ = name
        if made.stats.cache_misses:
            _say_why_it_takes_long()
            if kept["cache"]:
                remove_others(made.stats.cache_path, function, name, digest)
        return made

    return decorate
