"""The arrays that compiled episode loops take as arguments, grouped into named tuples.

    EpisodeArrays   an episode in progress: its memory and its last observation
    StepArrays      the arrays of one decision: scores, probabilities and step outputs

numba keeps a loop over named tuples in its on-disk cache if the signature names their types
(`named`). Every array must have exactly the declared type: inside a named tuple, a read-only array
is not accepted for a writable one, nor the reverse. These two tuples cost about 1 us per call.
Functions and generators are separate parameters, see hindcast.pipeline.simulation.functions.

Loops unpack the members once, before they begin, because each access counts a reference. Functions
that are called once per decision or once per row of a network take single arrays
(`hindcast.policies.networks.forward`).
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.simulation.kernel import FLOATS, IMAGE, INTS, MASK, ROWS, TERMS
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.simulation.spec import Spec


class EpisodeArrays(NamedTuple):
    """An episode in progress. The order is that of `observe`: `observe(*episode)`."""

    ints: NDArray[np.int64]  # memory, see hindcast.pipeline.simulation.kernel
    floats: NDArray[np.float64]  # memory
    context: NDArray[np.float64]  # (C,)
    image: NDArray[np.uint8]  # (P,)
    candidates: NDArray[np.float64]  # (capacity, F)
    feasible: NDArray[np.bool_]  # (capacity,)


class StepArrays(NamedTuple):
    """The arrays of one decision. `totals` is the sum of `step_outputs` over the episode."""

    scores: NDArray[np.float64]  # (capacity,)
    probabilities: NDArray[np.float64]  # (capacity,)
    step_outputs: NDArray[
        np.float64
    ]  # (2 + K,) as `step` fills it, see hindcast.pipeline.simulation.kernel
    totals: NDArray[np.float64]  # (2 + K,)


def named(group: type[Any], *members: Any) -> Any:
    """Return the compiled type of a named tuple whose members have these compiled types."""
    if len(set(members)) == 1:
        return types.NamedUniTuple(members[0], len(members), group)  # type: ignore[no-untyped-call]
    return types.NamedTuple(members, group)  # type: ignore[no-untyped-call]


EPISODE: Final = named(EpisodeArrays, INTS, FLOATS, FLOATS, IMAGE, ROWS, MASK)
STEPS: Final = named(StepArrays, FLOATS, FLOATS, FLOATS, FLOATS)


def begin_episode(spec: Spec, instance: Instance) -> EpisodeArrays:
    """Return a copy of the memory of an instance, with buffers for its observations."""
    capacity = instance.capacity
    return EpisodeArrays(
        ints=instance.ints.copy(),
        floats=instance.floats.copy(),
        context=np.zeros(len(spec.context)),
        image=np.zeros(int(np.prod(spec.image_shape)) if spec.image_shape else 0, np.uint8),
        candidates=np.zeros((capacity, len(spec.candidates))),
        feasible=np.zeros(capacity, np.bool_),
    )


def make_step_arrays(spec: Spec, instance: Instance) -> StepArrays:
    """Return arrays for the decisions of an instance, with totals of zero."""
    scores, probabilities = np.empty((2, instance.capacity))
    step_outputs, totals = np.zeros((2, TERMS + len(spec.reward_terms)))
    return StepArrays(scores, probabilities, step_outputs, totals)
