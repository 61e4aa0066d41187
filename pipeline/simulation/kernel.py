"""The contract between a compiled scenario and everything that runs it.

An episode lives in two flat arrays, its memory:

    ints    int64    [ header | workload | mutable state ]
    floats  float64  [ header | workload | mutable state ]

ints[FRESH] and floats[TIME] mean the same in every scenario; the rest of a header is its own.

Flat memory has one type for every scenario, so that one compiled episode loop, one recorder and
one lock-step batch serve them all; a copy of the two arrays is a copy of the episode, and a batch
is two matrices. A scenario gives four compiled functions over it (signatures below):

    observe(ints, floats, context, image, candidates, feasible) -> N     fills the buffers
    step(ints, floats, choice, step_outputs) -> status                   applies one choice
    outcome(ints, floats, outcomes) -> None                              fills the outcomes
    score(context, candidates, feasible, parameters, scores) -> None     a policy; no memory: it
                                                                         cannot peek at hidden state

A scenario may give a fifth, for policies that look ahead in a copy of the memory:

    forget(ints, floats) -> time     takes out what has not been seen yet; when the first of it
                                     comes, later than now, or infinity where nothing does

`observe` may update in place what it wrote for the last observation of the same episode: pass the
same buffers untouched, or clear ints[FRESH] first. `step` refers to the rows of the last
observation. The buffers may be longer than N; the length of `scores` is N.

`step_outputs` is [elapsed_s, reward, term, term, ...] in the order of Spec.reward_terms. Functions
are declared with explicit signatures and passed as first-class functions: only then does numba's
on-disk cache serve a loop that takes functions as arguments.
"""

from collections.abc import Callable
from typing import Any, Final

from numba import njit, types

FRESH: Final = 0  # ints[FRESH]: 1 where the buffers hold the last observation of this episode
TIME: Final = 0  # floats[TIME]: seconds since the start of the episode

ELAPSED: Final = 0  # step_outputs[ELAPSED]: seconds that passed in this step
REWARD: Final = 1  # step_outputs[REWARD]
TERMS: Final = 2  # step_outputs[TERMS:]: reward terms

RUNNING: Final = 0
TERMINATED: Final = 1
TRUNCATED: Final = 2
INFEASIBLE: Final = -1  # nothing was changed

INTS = types.Array(types.int64, 1, "C")
FLOATS = types.Array(types.float64, 1, "C")
IMAGE = types.Array(types.uint8, 1, "C")
ROWS = types.Array(types.float64, 2, "C")
MASK = types.Array(types.boolean, 1, "C")
INTS2 = types.Array(types.int64, 2, "C")
FLOATS3 = types.Array(types.float64, 3, "C")

OBSERVE = types.int64(INTS, FLOATS, FLOATS, IMAGE, ROWS, MASK)
STEP = types.int64(INTS, FLOATS, types.int64, FLOATS)
OUTCOME = types.void(INTS, FLOATS, FLOATS)
FORGET = types.float64(INTS, FLOATS)
SCORE = types.void(FLOATS, ROWS, MASK, FLOATS, FLOATS)

Compiled = Any  # a numba dispatcher


def compiled(signature: Any, **options: Any) -> Callable[[Any], Compiled]:
    """Decorator that compiles a function for one signature, kept on disk; it frees the GIL.

    numba reads what it kept before it looks whether the source has changed, and fails on a named
    tuple that has been renamed or removed since: then the function is compiled again.
    """
    kept = {"cache": True, "nogil": True, "error_model": "numpy", **options}

    def decorate(function: Any) -> Compiled:
        try:
            return njit(signature, **kept)(function)
        except (AttributeError, ImportError):
            njit(**kept)(function)._cache.flush()  # noqa: SLF001 - numba offers no other way
            return njit(signature, **kept)(function)

    return decorate
