"""The arrays that compiled episode loops take as arguments, grouped into named tuples.

    EpisodeArrays   an episode in progress: its memory and its last observation
    StepArrays      the arrays of one decision: scores, probabilities and step outputs
    BatchArrays     E episodes in progress, as rows of matrices

numba keeps a loop over named tuples in its on-disk cache if the signature names their types
(hindcast.pipeline.simulation.kernel.compiled_type). These two tuples cost about 1 us per call.
Functions are separate parameters, see hindcast.pipeline.simulation.functions.

Loops unpack the members once, before they begin, because each access counts a reference. Functions
that are called once per decision or once per row of a network take single arrays
(`hindcast.policies.networks.forward`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.simulation.kernel import (
    TERMS,
    Floats,
    Floats3,
    Image,
    Images,
    Ints,
    Ints2,
    Mask,
    Masks,
    Rows,
)
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.simulation.spec import Spec


class EpisodeArrays(NamedTuple):
    """An episode in progress. The order is that of `observe`: `observe(*episode)`."""

    ints: Ints  # memory, see hindcast.pipeline.simulation.kernel
    floats: Floats  # memory
    context: Floats  # (C,)
    image: Image  # (P,)
    candidates: Rows  # (capacity, F)
    feasible: Mask  # (capacity,)


class StepArrays(NamedTuple):
    """The arrays of one decision. `totals` is the sum of `step_outputs` over the episode."""

    scores: Floats  # (capacity,)
    probabilities: Floats  # (capacity,)
    step_outputs: Floats  # (2 + K,) as `step` fills it, see hindcast.pipeline.simulation.kernel
    totals: Floats  # (2 + K,)


class BatchArrays(NamedTuple):
    """E episodes in progress; the members are those of EpisodeArrays, padded with zeros."""

    ints: Ints2  # (E, I)
    floats: Rows  # (E, J)
    context: Rows  # (E, C)
    image: Images  # (E, P)
    candidates: Floats3  # (E, capacity, F)
    feasible: Masks  # (E, capacity)


def begin_episode(spec: Spec, instance: Instance) -> EpisodeArrays:
    """Return a copy of the memory of an instance, with buffers for its observations."""
    capacity = instance.capacity
    return EpisodeArrays(
        ints=instance.ints.copy(),
        floats=instance.floats.copy(),
        context=np.zeros(len(spec.context)),
        image=np.zeros(pixels_of(spec), np.uint8),
        candidates=np.zeros((capacity, len(spec.candidates))),
        feasible=np.zeros(capacity, np.bool_),
    )


def make_step_arrays(spec: Spec, instance: Instance) -> StepArrays:
    """Return arrays for the decisions of an instance, with totals of zero."""
    scores, probabilities = np.empty((2, instance.capacity))
    step_outputs, totals = np.zeros((2, TERMS + len(spec.reward_terms)))
    return StepArrays(scores, probabilities, step_outputs, totals)


def make_batch_arrays(
    spec: Spec, ints: NDArray[np.int64], floats: NDArray[np.float64], capacity: int
) -> BatchArrays:
    """Return the memories of E episodes, ints (E, I) and floats (E, J), with buffers."""
    episodes = len(ints)
    return BatchArrays(
        ints,
        floats,
        np.zeros((episodes, len(spec.context))),
        np.zeros((episodes, pixels_of(spec)), np.uint8),
        np.zeros((episodes, capacity, len(spec.candidates))),
        np.zeros((episodes, capacity), np.bool_),
    )


def pixels_of(spec: Spec) -> int:
    """Return the number of pixels of an image, 0 without images."""
    return int(np.prod(spec.image_shape)) if spec.image_shape else 0
