"""Recording of episodes: a compiled loop that writes every decision into column buffers."""

from typing import Final, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation import policy
from hindcast.pipeline.simulation.arrays import (
    EPISODE,
    STEPS,
    begin_episode,
    make_step_arrays,
    named,
)
from hindcast.pipeline.simulation.functions import OBSERVE_CELL, SCORE_CELL, STEP_CELL, cell
from hindcast.pipeline.simulation.kernel import INFEASIBLE, RUNNING, compiled
from hindcast.pipeline.simulation.players import EpisodeTrace
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.simulation.uncounted import uncounted

_FLOAT32: Final = types.Array(types.float32, 1, "C")
_FLOAT32_COLUMNS: Final = types.Array(types.float32, 2, "C")
# rows of Log.numbers
N_TIME: Final = 0
N_REWARD: Final = 1
N_ELAPSED: Final = 2
N_TERMS: Final = 3
# rows of Log.labels
L_EPISODE: Final = 0
L_STEP: Final = 1
L_CHOICE: Final = 2
L_STATUS: Final = 3
L_OFFSET: Final = 4  # of the row's first candidate
# Log.cursor
C_ROW: Final = 0
C_VALUE: Final = 1
C_STEP: Final = 2  # of the running episode
C_PLAYED: Final = 3  # trace_probabilities that have been copied


class Log(NamedTuple):
    """Columns that are being filled: R rows (decisions and closing rows), V candidates.

    Attributes:
        numbers: (3 + K, R) float64: time_s, reward, elapsed_s, K reward terms.
        labels: (5, R + 1) int64: episode, step, choice, status, offset of the first candidate.
        context: (C, R) float32.
        image: (R, P) uint8.
        propensity: (R,) float32.
        candidates: (F, V) float32.
        feasible: (V,) bool.
        probabilities: (V,) float32.
        values: (R,) float64, Monte-Carlo values, if the spec is `valued`.
        cursor: (4,) int64: rows used, candidates used, step of the running episode, see C_PLAYED.
    """

    numbers: NDArray[np.float64]
    labels: NDArray[np.int64]
    context: NDArray[np.float32]
    image: NDArray[np.uint8]
    propensity: NDArray[np.float32]
    candidates: NDArray[np.float32]
    feasible: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    values: NDArray[np.float64]
    cursor: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Number of rows used."""
        return int(self.cursor[C_ROW])

    def clear(self) -> None:
        """Drop the rows; a running episode continues with its next step."""
        self.cursor[:C_STEP] = 0


_LOG: Final = named(
    Log, k.ROWS, types.Array(types.int64, 2, "C"), _FLOAT32_COLUMNS,
    types.Array(types.uint8, 2, "C"), _FLOAT32, _FLOAT32_COLUMNS, k.MASK, _FLOAT32,
    k.FLOATS, k.INTS,
)  # fmt: skip


def make_log(spec: Spec, rows: int, candidates: int) -> Log:
    """Return empty columns for so many rows and candidates."""
    pixels = int(np.prod(spec.image_shape)) if spec.image_shape else 0
    return Log(
        numbers=np.empty((N_TERMS + len(spec.reward_terms), rows)),
        labels=np.zeros((L_OFFSET + 1, rows + 1), np.int64),
        context=np.empty((len(spec.context), rows), np.float32),
        image=np.empty((rows, pixels), np.uint8),
        propensity=np.empty(rows, np.float32),
        candidates=np.empty((len(spec.candidates), candidates), np.float32),
        feasible=np.empty(candidates, np.bool_),
        probabilities=np.empty(candidates, np.float32),
        values=np.zeros(rows),
        cursor=np.zeros(4, np.int64),
    )


@compiled(
    types.int64(
        OBSERVE_CELL, STEP_CELL, SCORE_CELL,
        EPISODE, STEPS, k.FLOATS, types.float64, types.float64, policy.GENERATOR,
        types.int64, _LOG, k.INTS, _FLOAT32,
    ))  # fmt: skip
def _record(  # type: ignore[no-untyped-def]
    observe, step, score, memory, arrays, parameters, temperature, epsilon, rng,
    episode, log, choices, trace_probabilities,
):  # fmt: skip
    """Record decisions until the episode ends (its status) or the log is full (RUNNING).

    `episode` is its number. If `choices` of the episode are given, with the `trace_probabilities`
    of all candidates, nothing is scored or drawn.
    """
    observe, step, score = observe[0], step[0], score[0]
    ints, floats, context, image, candidates, feasible = uncounted(memory)
    scores, probabilities, step_outputs, totals = uncounted(arrays)
    log = uncounted(log)
    numbers, labels, propensity, cursor = log.numbers, log.labels, log.propensity, log.cursor
    log_context, log_image, log_candidates = log.context, log.image, log.candidates
    log_feasible, log_probabilities = log.feasible, log.probabilities
    capacity = len(scores)
    row, value = cursor[0], cursor[1]
    status = RUNNING
    while True:
        over = status != RUNNING
        # leave room for this row and, if it is the last, for the closing row
        if not over and (row + 2 > len(propensity) or value + 2 * capacity > len(log_feasible)):
            break
        numbers[N_TIME, row] = floats[k.TIME]
        n = observe(ints, floats, context, image, candidates, feasible)
        labels[L_EPISODE, row] = episode
        labels[L_STEP, row] = cursor[2]
        labels[L_OFFSET, row] = value
        for c in range(len(context)):
            log_context[c, row] = context[c]
        for pixel in range(len(image)):
            log_image[row, pixel] = image[pixel]
        for f in range(len(log_candidates)):
            for i in range(n):
                log_candidates[f, value + i] = candidates[i, f]
        for i in range(n):
            log_feasible[value + i] = feasible[i]
        if over:
            for i in range(n):
                log_probabilities[value + i] = 0.0
            labels[L_CHOICE, row] = NO_CHOICE
            labels[L_STATUS, row] = status
            propensity[row] = 0.0
            for number in range(1, len(numbers)):
                numbers[number, row] = 0.0
            row += 1
            value += n
            break
        if len(choices) > 0:
            choice = choices[cursor[2]]
            for i in range(n):
                log_probabilities[value + i] = trace_probabilities[cursor[3] + i]
            cursor[3] += n
        else:
            shown = scores[:n]
            score(context, candidates, feasible, parameters, shown)
            choice = policy.draw_choice(shown, feasible, temperature, epsilon, rng, probabilities)
            policy.fill_probabilities(shown, feasible, temperature, epsilon, probabilities)
            for i in range(n):
                log_probabilities[value + i] = probabilities[i]
        propensity[row] = log_probabilities[value + choice]
        status = step(ints, floats, choice, step_outputs)
        if status == INFEASIBLE:
            return INFEASIBLE
        labels[L_CHOICE, row] = choice
        labels[L_STATUS, row] = status
        numbers[N_REWARD, row] = step_outputs[k.REWARD]
        numbers[N_ELAPSED, row] = step_outputs[k.ELAPSED]
        for term in range(k.TERMS, len(step_outputs)):
            numbers[N_TERMS + term - k.TERMS, row] = step_outputs[term]
        for output in range(len(step_outputs)):
            totals[output] += step_outputs[output]
        cursor[2] += 1
        row += 1
        value += n
    labels[L_OFFSET, row] = value
    cursor[0] = row
    cursor[1] = value
    return status


class Recording:
    """One episode that is being recorded; call `go_on` until it returns True."""

    def __init__(
        self,
        scenario: Scenario,
        spec: Spec,
        instance: Instance,
        behaviour: Behaviour,
        rng: np.random.Generator,
        episode: int,
        values: NDArray[np.float64] | None = None,
        played: EpisodeTrace | None = None,
    ) -> None:
        rule = behaviour.policy if isinstance(behaviour.policy, Heuristic) else None
        if rule is None and played is None:
            raise HindcastError(
                f"{behaviour.name} is not a compiled rule: pass its finished episode as `played`"
            )
        self._scenario, self._spec, self._behaviour, self._rng = scenario, spec, behaviour, rng
        self._episode, self._values = episode, values
        self._memory = begin_episode(spec, instance)
        self._arrays = make_step_arrays(spec, instance)
        self.parameters = policy.NO_PARAMETERS if rule is None else rule.parameters(spec, rng)
        self._score = policy.no_score if rule is None else rule.score
        self._choices = np.zeros(0, np.int64) if played is None else played.choices
        self._probabilities = np.zeros(0, np.float32) if played is None else played.probabilities
        self._begun = False
        self._steps = 0
        self._status = RUNNING

    def go_on(self, log: Log) -> bool:
        """Fill the log; return False if it is full, True if the episode is over.

        A full log must be cleared before the next call. Raises HindcastError if the behaviour makes
        an infeasible choice.
        """
        if not self._begun:
            log.cursor[C_STEP] = log.cursor[C_PLAYED] = 0
            self._begun = True
        first_row, first_step = log.rows, int(log.cursor[C_STEP])
        with policy.faults_of(self._behaviour):
            self._status = _record(
                cell(self._scenario.observe), cell(self._scenario.step), cell(self._score),
                self._memory, self._arrays, self.parameters, self._behaviour.temperature,
                self._behaviour.epsilon, self._rng, self._episode, log, self._choices,
                self._probabilities,
            )  # fmt: skip
        if self._status == INFEASIBLE:
            raise HindcastError(f"behaviour {self._behaviour.name} chose an infeasible candidate")
        self._steps = int(log.cursor[C_STEP])
        if self._values is not None:
            decided = self._steps - first_step
            values = self._values[first_step : self._steps]
            log.values[first_row : first_row + decided] = values
        return bool(self._status != RUNNING)

    def episode(self) -> Episode:
        """Return the results of the finished episode."""
        return finished_episode(
            self._scenario.outcome, self._spec, self._memory.ints, self._memory.floats,
            self._arrays.totals, self._steps, truncated=self._status == k.TRUNCATED,
        )  # fmt: skip
