"""Batches of episodes that advance together: one network call per step decides all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError, InfeasibleChoice, PolicyFault
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import BatchArrays, make_batch_arrays
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.functions import ObserveCell, StepCell, cell
from hindcast.pipeline.simulation.kernel import Floats, Ints, Mask, Rows, compiled
from hindcast.pipeline.simulation.policy import BatchPolicy, Behaviour, choose_with, readings
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario, stack_memories
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.simulation.uncounted import uncounted


@dataclass(frozen=True)
class Batch:
    """Observations of the B live episodes of a batch, packed without padding.

    Attributes:
        live: Indices (B,) of these episodes in the batch.
        time_s: Seconds since the start of each episode, (B,).
        context: Features of the moment, (B, C).
        image: Flattened images, (B, P) uint8.
        candidates: Features of all candidates, (sum of N, F). Rows offsets[b]:offsets[b + 1]
            belong to observation b.
        feasible: Mask of the candidates, (sum of N,).
        offsets: First row of each observation, (B + 1,).
    """

    live: NDArray[np.int64]
    time_s: NDArray[np.float64]
    context: NDArray[np.float64]
    image: NDArray[np.uint8]
    candidates: NDArray[np.float64]
    feasible: NDArray[np.bool_]
    offsets: NDArray[np.int64]


class PackedArrays(NamedTuple):
    """Rows of the candidates of all live episodes, one observation after the other."""

    candidates: Rows  # (rows, F)
    feasible: Mask  # (rows,)
    offsets: Ints  # (E + 1,)


class StepTotals(NamedTuple):
    """Results of one step in each of E episodes."""

    step_outputs: Rows  # (E, 2 + K) of the last step
    totals: Rows  # (E, 2 + K) their sums
    status: Ints  # (E,)
    steps: Ints  # (E,) number of steps


@compiled()
def _observe_all(observe: ObserveCell, batch: BatchArrays, live: Ints, packed: PackedArrays) -> int:
    """Observe every live episode and pack the rows; return the number of rows."""
    look = observe[0]
    ints, floats, context, image, candidates, feasible = uncounted(batch)
    packed_candidates, packed_feasible, offsets = uncounted(packed)
    total = 0
    for b in range(len(live)):
        e = live[b]
        n = look(ints[e], floats[e], context[e], image[e], candidates[e], feasible[e])
        offsets[b] = total
        for i in range(n):
            for f in range(packed_candidates.shape[1]):
                packed_candidates[total + i, f] = candidates[e, i, f]
            packed_feasible[total + i] = feasible[e, i]
        total += n
    offsets[len(live)] = total
    return total


@compiled()
def _step_all(
    step: StepCell, batch: BatchArrays, live: Ints, choices: Ints, results: StepTotals
) -> int:
    """Step every live episode; return the first episode whose choice is infeasible, or -1."""
    act = step[0]
    ints, floats, _context, _image, _candidates, _feasible = uncounted(batch)
    step_outputs, totals, status, steps = uncounted(results)
    for b in range(len(live)):
        e = live[b]
        status[e] = act(ints[e], floats[e], choices[b], step_outputs[e])
        if status[e] == k.INFEASIBLE:
            return e  # type: ignore[no-any-return]
        steps[e] += 1
        for i in range(step_outputs.shape[1]):
            totals[e, i] += step_outputs[e, i]
    return -1


@compiled()
def _choose_all(
    scores: Floats,
    feasible: Mask,
    offsets: Ints,
    temperature: float,
    epsilon: float,
    uniform: Floats,
    buffer: Floats,
    choices: Ints,
) -> None:
    """Fill one choice per observation; -1 if no candidate is feasible."""
    for b in range(len(choices)):
        start, stop = offsets[b], offsets[b + 1]
        choices[b] = choose_with(
            scores[start:stop],
            feasible[start:stop],
            temperature,
            epsilon,
            uniform[b],
            buffer[start:stop],
        )


class BatchedEpisodes:
    """Episodes that are stepped together until all of them are over.

    Their memories are rows of two matrices, padded to the largest instance.

    Attributes:
        live: Indices of the episodes that are not over.
        step_outputs: Outputs of the last step of every episode, (E, 2 + K), see
            hindcast.pipeline.simulation.kernel.
        totals: Their sums over the steps so far, (E, 2 + K).
        status: Status of every episode after its last step, (E,).
        steps: Number of steps of every episode, (E,).
    """

    def __init__(self, scenario: Scenario, spec: Spec, instances: Sequence[Instance]) -> None:
        n = len(instances)
        if n == 0:
            raise HindcastError("the batch has no instances; expected at least one")
        self._scenario, self._spec = scenario, spec
        capacity = max(i.capacity for i in instances)
        self._arrays = make_batch_arrays(spec, *stack_memories(instances), capacity)
        rows = sum(i.capacity for i in instances)
        self._packed = PackedArrays(
            np.zeros((rows, len(spec.candidates))),
            np.zeros(rows, np.bool_),
            np.zeros(n + 1, np.int64),
        )
        self.step_outputs, self.totals = np.zeros((2, n, k.TERMS + len(spec.reward_terms)))
        self.status, self.steps = np.full(n, k.RUNNING, np.int64), np.zeros(n, np.int64)
        self._results = StepTotals(self.step_outputs, self.totals, self.status, self.steps)
        self.live = np.arange(n)

    def observe(self) -> Batch:
        """Return the observations of the live episodes, valid until the next call."""
        live, arrays, packed = self.live, self._arrays, self._packed
        total = _observe_all(cell(self._scenario.observe), arrays, live, packed)
        return Batch(
            live, arrays.floats[live, k.TIME], arrays.context[live], arrays.image[live],
            packed.candidates[:total], packed.feasible[:total], packed.offsets[: len(live) + 1],
        )  # fmt: skip

    def step(self, choices: NDArray[np.int64]) -> None:
        """Apply a choice per live episode; drop those that are over. Raises InfeasibleChoice."""
        given = np.ascontiguousarray(choices, np.int64)
        bad = _step_all(cell(self._scenario.step), self._arrays, self.live, given, self._results)
        if bad >= 0:
            raise InfeasibleChoice(f"the choice of episode {bad} of the batch is not feasible")
        self.live = self.live[self.status[self.live] == k.RUNNING]

    def memory(self, episode: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the memory of an episode, padded with zeros to the longest memory."""
        return self._arrays.ints[episode], self._arrays.floats[episode]

    def episodes(self) -> list[Episode]:
        """Return a summary of every episode."""
        return [
            finished_episode(
                self._scenario.outcome, self._spec, *self.memory(e), self.totals[e],
                int(self.steps[e]), truncated=bool(self.status[e] == k.TRUNCATED),
                blocks=self._scenario.blocks,
            )
            for e in range(len(self.status))
        ]  # fmt: skip


def run_batched(
    scenario: Scenario,
    spec: Spec,
    instances: Sequence[Instance],
    behaviour: Behaviour,
    rngs: Sequence[np.random.Generator],
    progress: Callable[[int, int], None] | None = None,
) -> list[Episode]:
    """Run one episode per instance, all decided by one policy, each with its own generator.

    `progress` receives the numbers of finished and of all episodes. A score that is not a number
    raises HindcastError. `place` of a PolicyFault is the number of the instance.
    """
    batch = BatchedEpisodes(scenario, spec, instances)
    draws = behaviour.epsilon > 0 or behaviour.temperature > 0
    while len(batch.live):
        seen = batch.observe()
        try:
            scores = scores_of(behaviour, seen, spec)
        except PolicyFault as fault:
            episode = int(seen.live[fault.place])
            raise PolicyFault(f"{fault}, at decision {batch.steps[episode]}", episode) from fault
        uniform = (
            np.array([rngs[e].random() for e in seen.live]) if draws else np.ones(len(seen.live))
        )
        choices = np.empty(len(seen.live), np.int64)
        _choose_all(
            scores, seen.feasible, seen.offsets, behaviour.temperature, behaviour.epsilon,
            uniform, np.empty(len(scores)), choices,
        )  # fmt: skip
        before = len(batch.live)
        batch.step(choices)
        if progress is not None and len(batch.live) != before:
            progress(len(instances) - len(batch.live), len(instances))
    return batch.episodes()


def scores_of(behaviour: Behaviour, seen: Batch, spec: Spec) -> NDArray[np.float64]:
    """Return the scores (sum of N,) of a batch. Raises HindcastError for one that is no number."""
    policy = behaviour.policy
    if isinstance(policy, BatchPolicy):
        more = {name: getattr(seen, name) for name in readings(policy)}
        scores = policy.batch_scores(seen.context, seen.candidates, seen.offsets, **more)
    else:
        scores = np.concatenate(
            [policy.scores(observation_of(seen, b, spec)) for b in range(len(seen.live))]
        )
    scores = np.ascontiguousarray(scores, np.float64)
    if np.isnan(scores).any():
        raise HindcastError(f"{behaviour.name} gave a score that is not a number")
    return scores


def observation_of(batch: Batch, b: int, spec: Spec) -> Observation:
    """Return observation `b` of a batch as copies."""
    rows = slice(batch.offsets[b], batch.offsets[b + 1])
    return Observation(
        time_s=float(batch.time_s[b]),
        context=batch.context[b].copy(),
        candidates=batch.candidates[rows].copy(),
        feasible=batch.feasible[rows].copy(),
        image=batch.image[b].reshape(spec.image_shape).copy() if spec.image_shape else None,
    )
