"""Many episodes in arrays, advanced and observed by one compiled call.

    memory      ints (E, I), floats (E, J)               see hindcast.pipeline.simulation.kernel
    buffers     context, image, candidates, feasible     what `observe` fills and updates, float64
    shown       context, candidates, mask, image         the same as a learner gets it, padded to K
    results     reward, elapsed_s, terminated, ...       of the last call, (E,)

An episode whose flag `begins` is set is only observed, because its memory is new.
"""

from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.functions import OBSERVE_CELL, OUTCOME_CELL, STEP_CELL, cell
from hindcast.pipeline.simulation.kernel import FLOATS, FLOATS3, INTS, INTS2, MASK, ROWS, compiled
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec

_BYTES2: Final = types.Array(types.uint8, 2, "C")
_MASK2: Final = types.Array(types.boolean, 2, "C")
_SIGNS2: Final = types.Array(types.int8, 2, "C")
_SINGLES2: Final = types.Array(types.float32, 2, "C")
_SINGLES3: Final = types.Array(types.float32, 3, "C")


@compiled(
    types.int64(
        OBSERVE_CELL, STEP_CELL, OUTCOME_CELL,
        INTS2, ROWS, ROWS, _BYTES2, FLOATS3, _MASK2, ROWS, ROWS,
        _SINGLES2, _SINGLES3, _SIGNS2, _BYTES2, _MASK2, INTS2, INTS, INTS,
        INTS, MASK, types.int64, FLOATS, FLOATS, MASK, MASK, MASK, INTS,
    ))  # fmt: skip
def _advance(  # type: ignore[no-untyped-def]
    observe, step, outcome,
    ints, floats, context, image, candidates, feasible, step_outputs, outcomes,
    shown_context, shown_candidates, shown_mask, shown_image, allowed, rows, used, cut,
    actions, begins, limit, reward, elapsed, terminated, truncated, refused, refusals,
):  # fmt: skip
    """Apply the actions (E,) and show the next observations; return an episode that failed, or -1.

    An action that the mask forbids changes nothing. It truncates the episode if it is number
    `limit` of such actions in a row.
    """
    observe, step, outcome = observe[0], step[0], outcome[0]
    most = shown_candidates.shape[1]
    for e in range(len(actions)):
        reward[e] = elapsed[e] = 0.0
        terminated[e] = truncated[e] = refused[e] = False
        if begins[e]:
            refusals[e] = 0
        elif not allowed[e, actions[e]]:
            refused[e] = True
            refusals[e] += 1
            truncated[e] = refusals[e] >= limit
            if truncated[e]:
                outcome(ints[e], floats[e], outcomes[e])
            continue
        else:
            refusals[e] = 0
            status = step(ints[e], floats[e], rows[e, actions[e]], step_outputs[e])
            if status == k.INFEASIBLE:
                return e
            reward[e] = step_outputs[e, k.REWARD]
            elapsed[e] = step_outputs[e, k.ELAPSED]
            terminated[e] = status == k.TERMINATED
            truncated[e] = status == k.TRUNCATED
            if status != k.RUNNING:
                outcome(ints[e], floats[e], outcomes[e])
        n = observe(ints[e], floats[e], context[e], image[e], candidates[e], feasible[e])
        for c in range(context.shape[1]):
            shown_context[e, c] = context[e, c]
        for p in range(image.shape[1]):
            shown_image[e, p] = image[e, p]
        count = 0
        for i in range(n):  # of more than K candidates, the first K feasible ones
            if count < most and (n <= most or feasible[e, i]):
                rows[e, count] = i
                count += 1
        for i in range(count):
            row = rows[e, i]
            allowed[e, i] = feasible[e, row]
            shown_mask[e, i] = feasible[e, row]
            for f in range(candidates.shape[2]):
                shown_candidates[e, i, f] = candidates[e, row, f]
        for i in range(count, used[e]):
            allowed[e, i] = False
            shown_mask[e, i] = 0
            for f in range(candidates.shape[2]):
                shown_candidates[e, i, f] = 0.0
        used[e] = count
        cut[e] = n - count
    return -1


class EpisodeBatch:
    """E episodes, each of which can begin again at any time, observed with K candidates.

    Attributes:
        context: (E, C) float32, of the last observation of every episode.
        candidates: (E, K, F) float32, zeros for padding.
        mask: (E, K) int8, 1 for a feasible candidate.
        image: (E, P) uint8.
        allowed: (E, K) bool, the mask.
        cut: (E,) int64, number of candidates that are not among the K.
        begins: (E,) bool, whether the memory is new: the next call only observes.
        reward: (E,) float64, of the last call.
        elapsed_s: (E,) float64, simulated seconds that passed in the last call.
        terminated: (E,) bool.
        truncated: (E,) bool.
        refused: (E,) bool, whether the action of the last call was infeasible.
        outcomes: (E, O) float64, of the last episode that ended.
    """

    def __init__(self, scenario: Scenario, spec: Spec, episodes: int, k_: int, limit: int) -> None:
        self._scenario, self._limit = scenario, limit
        pixels = int(np.prod(spec.image_shape)) if spec.image_shape else 0
        features = len(spec.candidates)
        self._ints = np.zeros((episodes, 1), np.int64)
        self._floats = np.zeros((episodes, 1))
        self._context = np.zeros((episodes, len(spec.context)))
        self._image = np.zeros((episodes, pixels), np.uint8)
        self._candidates = np.zeros((episodes, 1, features))
        self._feasible = np.zeros((episodes, 1), np.bool_)
        self._step_outputs = np.zeros((episodes, k.TERMS + len(spec.reward_terms)))
        self._rows = np.zeros((episodes, k_), np.int64)
        self._used, self.cut, self._refusals = np.zeros((3, episodes), np.int64)
        self.context = np.zeros((episodes, len(spec.context)), np.float32)
        self.candidates = np.zeros((episodes, k_, features), np.float32)
        self.mask = np.zeros((episodes, k_), np.int8)
        self.image = np.zeros((episodes, pixels), np.uint8)
        self.allowed = np.zeros((episodes, k_), np.bool_)
        self.outcomes = np.zeros((episodes, len(spec.outcomes)))
        self.reward, self.elapsed_s = np.zeros((2, episodes))
        self.terminated, self.truncated, self.refused = np.zeros((3, episodes), np.bool_)
        self.begins = np.ones(episodes, np.bool_)

    def begin(self, episode: int, instance: Instance) -> None:
        """Put the memory of an instance in the place of an episode."""
        self._make_room(instance)
        for memory, new in ((self._ints, instance.ints), (self._floats, instance.floats)):
            memory[episode, : len(new)] = new
            memory[episode, len(new) :] = 0
        self.begins[episode] = True

    def advance(self, actions: NDArray[np.int64]) -> int:
        """Apply an action (E,) to every episode that does not begin, and observe all of them.

        Returns the first episode that refused an action its mask allows, or -1.
        """
        failed = _advance(
            cell(self._scenario.observe), cell(self._scenario.step), cell(self._scenario.outcome),
            self._ints, self._floats, self._context, self._image, self._candidates,
            self._feasible, self._step_outputs, self.outcomes,
            self.context, self.candidates, self.mask, self.image, self.allowed,
            self._rows, self._used, self.cut,
            actions, self.begins, self._limit, self.reward, self.elapsed_s,
            self.terminated, self.truncated, self.refused, self._refusals,
        )  # fmt: skip
        self.begins[:] = False
        return int(failed)

    def observation(self, episode: int) -> dict[str, Any]:
        """Return the fields of the `Observation` of an episode, as it was last observed."""
        n = int(self._used[episode] + self.cut[episode])
        return {
            "time_s": float(self._floats[episode, k.TIME]),
            "context": self._context[episode].copy(),
            "candidates": self._candidates[episode, :n].copy(),
            "feasible": self._feasible[episode, :n].copy(),
        }

    def _make_room(self, instance: Instance) -> None:
        """Widen the arrays if the instance needs more than all before it."""
        self._ints = _widened(self._ints, len(instance.ints))
        self._floats = _widened(self._floats, len(instance.floats))
        self._candidates = _widened(self._candidates, instance.capacity)
        self._feasible = _widened(self._feasible, instance.capacity)


def _widened(array: NDArray[Any], width: int) -> NDArray[Any]:
    """Return an array (E, W, ...) with W of at least `width`; a wider one is padded with zeros."""
    if array.shape[1] >= width:
        return array
    room = np.zeros((len(array), width, *array.shape[2:]), array.dtype)
    room[:, : array.shape[1]] = array
    return room
