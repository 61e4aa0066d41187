"""Compiled replay of recorded choices: the first row that is not what the simulator gives."""

from typing import Final

import numpy as np
from numba import types

from pipeline.simulation.kernel import (
    ELAPSED,
    FLOATS,
    IMAGE,
    INFEASIBLE,
    INTS,
    MASK,
    OBSERVE,
    REWARD,
    ROWS,
    RUNNING,
    SCORE,
    STEP,
    TERMINATED,
    TERMS,
    TIME,
    TRUNCATED,
    compiled,
)
from pipeline.simulation.policy import fill_probabilities

FINE: Final = 0
FAULTS: Final = (
    "fine",
    "the number of candidates differs from the simulator's",
    "a candidate differs from the simulator's",
    "the mask differs from the simulator's",
    "the context differs from the simulator's",
    "time_s differs from the simulator's",
    "the choice is not feasible",
    "the reward differs from the simulator's",
    "elapsed_s differs from the simulator's",
    "a reward term differs from the simulator's",
    "terminated or truncated differs from the simulator's",
    "the propensity is not the probability of the choice, or not above 0",
    "the probabilities do not sum to 1",
    "the probabilities are not those of the behaviour policy",
    "there are decisions after the episode's end, or none before its closing row",
    "the image differs from the simulator's",
)
CHANCES: Final = 13  # the fault of probabilities that are another policy's
TOLERANCE: Final = 1e-5  # of probabilities, stored as float32

_FLOATS32: Final = types.Array(types.float32, 1, "C")
_ROWS32: Final = types.Array(types.float32, 2, "C")
_ROWS64: Final = types.Array(types.float64, 2, "C")
_BYTES2: Final = types.Array(types.uint8, 2, "C")


@compiled(
    types.UniTuple(types.int64, 2)(  # type: ignore[no-untyped-call]
        types.FunctionType(OBSERVE), types.FunctionType(STEP), types.FunctionType(SCORE),
        INTS, FLOATS, FLOATS, types.float64, types.float64, types.boolean,
        FLOATS, IMAGE, ROWS, MASK, FLOATS, FLOATS, FLOATS, FLOATS, types.int64, types.int64,
        INTS, _ROWS32, MASK, _FLOATS32, _ROWS32, FLOATS, INTS, _FLOATS32, FLOATS, FLOATS,
        _ROWS64, MASK, MASK, _BYTES2,
    ))  # fmt: skip
def replay(  # type: ignore[no-untyped-def]
    observe, step, score, ints, floats, parameters, temperature, epsilon, scored,
    context, image, candidates, feasible, scores, probabilities, booked, state, first, stop,
    offsets, log_candidates, log_feasible, log_probabilities, log_context,
    log_time, choice, propensity, reward, elapsed, terms, terminated, truncated, log_image,
):  # fmt: skip
    """Replay rows first..stop-1 of one episode; (fault, row), fault 0 where all is well.

    `state` is [status, sum of rewards] and goes from block to block of a long episode.
    """
    status = int(state[0])
    for row in range(first, stop):
        closing = choice[row] < 0
        if closing == (status == RUNNING):
            return 14, row
        time_s = floats[TIME]
        n = observe(ints, floats, context, image, candidates, feasible)
        start = offsets[row]
        if offsets[row + 1] - start != n:
            return 1, row
        for i in range(n):
            for f in range(log_candidates.shape[1]):
                if np.float32(candidates[i, f]) != log_candidates[start + i, f]:
                    return 2, row
            if feasible[i] != log_feasible[start + i]:
                return 3, row
        for c in range(len(context)):
            if np.float32(context[c]) != log_context[row, c]:
                return 4, row
        for p in range(len(image)):
            if image[p] != log_image[row, p]:
                return 15, row
        if time_s != log_time[row]:
            return 5, row
        if closing:
            continue
        chosen = choice[row]
        if chosen >= n or not feasible[chosen]:
            return 6, row
        total = 0.0
        for i in range(n):
            logged = log_probabilities[start + i]
            if logged < 0.0 or (logged > 0.0 and not feasible[i]):
                return 12, row
            total += logged
        if not abs(total - 1.0) <= TOLERANCE:
            return 12, row
        if propensity[row] != log_probabilities[start + chosen] or not propensity[row] > 0.0:
            return 11, row
        if scored:
            score(context, candidates, feasible, parameters, scores[:n])
            fill_probabilities(scores[:n], feasible, temperature, epsilon, probabilities)
            for i in range(n):
                if abs(probabilities[i] - log_probabilities[start + i]) > TOLERANCE:
                    return 13, row
        status = step(ints, floats, chosen, booked)
        if status == INFEASIBLE:
            return 6, row
        if booked[REWARD] != reward[row]:
            return 7, row
        if booked[ELAPSED] != elapsed[row]:
            return 8, row
        for k in range(terms.shape[1]):
            if booked[TERMS + k] != terms[row, k]:
                return 9, row
        if (status == TERMINATED) != terminated[row] or (status == TRUNCATED) != truncated[row]:
            return 10, row
        state[1] += booked[REWARD]
    state[0] = status
    return FINE, stop
