"""Many episodes in arrays, advanced and observed by one compiled call.

    memory      ints (E, I), floats (E, J)               see hindcast.pipeline.simulation.kernel
    buffers     context, image, candidates, feasible     what `observe` fills and updates, float64
    shown       context, candidates, mask, image         the same as a learner gets it, padded to K
    results     reward, elapsed_s, terminated, ...       of the last call, (E,)

An episode whose flag `begins` is set is only observed, because its memory is new.
"""

from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import BatchArrays, make_batch_arrays, pixels_of
from hindcast.pipeline.simulation.functions import ObserveCell, OutcomeCell, StepCell, cell
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.simulation.uncounted import uncounted

Signs: TypeAlias = Annotated[NDArray[np.int8], types.Array(types.int8, 2, "C")]
Singles3: TypeAlias = Annotated[NDArray[np.float32], types.Array(types.float32, 3, "C")]


class ShownArrays(NamedTuple):
    """E observations with K candidates, as a learner gets them."""

    context: k.Singles2  # (E, C)
    candidates: Singles3  # (E, K, F)
    mask: Signs  # (E, K)
    image: k.Images  # (E, P)
    allowed: k.Masks  # (E, K), the mask
    rows: k.Ints2  # (E, K) row of each candidate in the observation
    used: k.Ints  # (E,) number of rows that are not padding
    cut: k.Ints  # (E,) number of candidates that are not among the K


class ResultArrays(NamedTuple):
    """Results of the last call for E episodes. The call reads `begins` and writes the others."""

    begins: k.Mask  # whether the memory is new
    step_outputs: k.Rows  # (E, 2 + K)
    outcomes: k.Rows  # (E, O) of the last episode that ended
    reward: k.Floats
    elapsed_s: k.Floats
    terminated: k.Mask
    truncated: k.Mask
    refused: k.Mask  # whether the mask forbids the action
    refusals: k.Ints  # number of such actions in a row


@k.compiled()
def _show(n: int, e: int, batch: BatchArrays, shown: ShownArrays) -> None:
    """Show the last observation of an episode, which has n candidates."""
    _ints, _floats, context, image, candidates, feasible = uncounted(batch)
    (
        shown_context, shown_candidates, mask, shown_image, allowed, rows, used, cut,
    ) = uncounted(shown)  # fmt: skip
    most = shown_candidates.shape[1]
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
        mask[e, i] = feasible[e, row]
        for f in range(candidates.shape[2]):
            shown_candidates[e, i, f] = candidates[e, row, f]
    for i in range(count, used[e]):
        allowed[e, i] = False
        mask[e, i] = 0
        for f in range(candidates.shape[2]):
            shown_candidates[e, i, f] = 0.0
    used[e] = count
    cut[e] = n - count


@k.compiled()
def _advance(
    observe: ObserveCell,
    step: StepCell,
    outcome: OutcomeCell,
    batch: BatchArrays,
    shown: ShownArrays,
    results: ResultArrays,
    actions: k.Ints,
    limit: int,
) -> int:
    """Apply the actions (E,) and show the next observations; return an episode that failed, or -1.

    An action that the mask forbids changes nothing. It truncates the episode if it is number
    `limit` of such actions in a row.
    """
    look, act, finish = observe[0], step[0], outcome[0]
    ints, floats, context, image, candidates, feasible = uncounted(batch)
    allowed, rows = shown.allowed, shown.rows
    (
        begins, step_outputs, outcomes, reward, elapsed, terminated, truncated, refused, refusals,
    ) = uncounted(results)  # fmt: skip
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
                finish(ints[e], floats[e], outcomes[e])
            continue
        else:
            refusals[e] = 0
            status = act(ints[e], floats[e], rows[e, actions[e]], step_outputs[e])
            if status == k.INFEASIBLE:
                return e
            reward[e] = step_outputs[e, k.REWARD]
            elapsed[e] = step_outputs[e, k.ELAPSED]
            terminated[e] = status == k.TERMINATED
            truncated[e] = status == k.TRUNCATED
            if status != k.RUNNING:
                finish(ints[e], floats[e], outcomes[e])
        n = look(ints[e], floats[e], context[e], image[e], candidates[e], feasible[e])
        _show(n, e, batch, shown)
    return -1


class EpisodeBatch:
    """E episodes, each of which can begin again at any time, observed with K candidates.

    Attributes:
        shown: The last observation of every episode, padded with zeros to K candidates.
        results: What the last call did to every episode.
    """

    def __init__(self, scenario: Scenario, spec: Spec, episodes: int, k_: int, limit: int) -> None:
        self._scenario, self._limit = scenario, limit
        ints, floats = np.zeros((episodes, 1), np.int64), np.zeros((episodes, 1))
        self._arrays = make_batch_arrays(spec, ints, floats, 1)
        used, cut, refusals = np.zeros((3, episodes), np.int64)
        reward, elapsed_s = np.zeros((2, episodes))
        terminated, truncated, refused = np.zeros((3, episodes), np.bool_)
        self.shown = ShownArrays(
            context=np.zeros((episodes, len(spec.context)), np.float32),
            candidates=np.zeros((episodes, k_, len(spec.candidates)), np.float32),
            mask=np.zeros((episodes, k_), np.int8),
            image=np.zeros((episodes, pixels_of(spec)), np.uint8),
            allowed=np.zeros((episodes, k_), np.bool_),
            rows=np.zeros((episodes, k_), np.int64),
            used=used,
            cut=cut,
        )
        self.results = ResultArrays(
            begins=np.ones(episodes, np.bool_),
            step_outputs=np.zeros((episodes, k.TERMS + len(spec.reward_terms))),
            outcomes=np.zeros((episodes, len(spec.outcomes))),
            reward=reward,
            elapsed_s=elapsed_s,
            terminated=terminated,
            truncated=truncated,
            refused=refused,
            refusals=refusals,
        )

    def begin(self, episode: int, instance: Instance) -> None:
        """Put the memory of an instance in the place of an episode."""
        self._make_room(instance)
        ints, floats = self._arrays[:2]
        ints[episode, : len(instance.ints)] = instance.ints
        ints[episode, len(instance.ints) :] = 0
        floats[episode, : len(instance.floats)] = instance.floats
        floats[episode, len(instance.floats) :] = 0
        self.results.begins[episode] = True

    def advance(self, actions: NDArray[np.int64]) -> int:
        """Apply an action (E,) to every episode that does not begin, and observe all of them.

        Returns the first episode that refused an action its mask allows, or -1.
        """
        failed = _advance(
            cell(self._scenario.observe), cell(self._scenario.step), cell(self._scenario.outcome),
            self._arrays, self.shown, self.results, actions, self._limit,
        )  # fmt: skip
        self.results.begins[:] = False
        return int(failed)

    def observation(self, episode: int) -> dict[str, Any]:
        """Return the fields of the `Observation` of an episode, as it was last observed."""
        n = int(self.shown.used[episode] + self.shown.cut[episode])
        return {
            "time_s": float(self._arrays.floats[episode, k.TIME]),
            "context": self._arrays.context[episode].copy(),
            "candidates": self._arrays.candidates[episode, :n].copy(),
            "feasible": self._arrays.feasible[episode, :n].copy(),
        }

    def _make_room(self, instance: Instance) -> None:
        """Widen the arrays if the instance needs more than all before it."""
        arrays = self._arrays
        self._arrays = arrays._replace(
            ints=_widened(arrays.ints, len(instance.ints)),
            floats=_widened(arrays.floats, len(instance.floats)),
            candidates=_widened(arrays.candidates, instance.capacity),
            feasible=_widened(arrays.feasible, instance.capacity),
        )


def _widened(array: NDArray[Any], width: int) -> NDArray[Any]:
    """Return an array (E, W, ...) with W of at least `width`; a wider one is padded with zeros."""
    if array.shape[1] >= width:
        return array
    room = np.zeros((len(array), width, *array.shape[2:]), array.dtype)
    room[:, : array.shape[1]] = array
    return room
