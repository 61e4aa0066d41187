"""Recording of episodes: a compiled loop that writes every decision into column buffers."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation import policy
from hindcast.pipeline.simulation.arrays import (
    EpisodeArrays,
    StepArrays,
    begin_episode,
    make_step_arrays,
)
from hindcast.pipeline.simulation.draws import Draws, draws_of
from hindcast.pipeline.simulation.functions import ObserveCell, ScoreCell, StepCell, cell
from hindcast.pipeline.simulation.kernel import INFEASIBLE, RUNNING, compiled
from hindcast.pipeline.simulation.players import EpisodeTrace
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.simulation.uncounted import uncounted

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
C_PLAYED: Final = 3  # given probabilities that have been copied


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

    numbers: k.Rows
    labels: k.Ints2
    context: k.Singles2
    image: k.Images
    propensity: k.Singles
    candidates: k.Singles2
    feasible: k.Mask
    probabilities: k.Singles
    values: k.Floats
    cursor: k.Ints

    @property
    def rows(self) -> int:
        """Number of rows used."""
        return int(self.cursor[C_ROW])

    def clear(self) -> None:
        """Drop the rows; a running episode continues with its next step."""
        self.cursor[:C_STEP] = 0


class GivenChoices(NamedTuple):
    """The choices of an episode and the probabilities of all candidates; empty to draw choices."""

    choices: k.Ints
    probabilities: k.Singles


def make_log(spec: Spec, rows: int, candidates: int) -> Log:
    """Return empty columns for a number of rows and of candidates."""
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


@compiled()
def _record(
    observe: ObserveCell,
    step: StepCell,
    score: ScoreCell,
    memory: EpisodeArrays,
    arrays: StepArrays,
    drawing: policy.Drawing,
    draws: Draws,
    given: GivenChoices,
    episode: int,
    log: Log,
) -> int:
    """Record decisions until the episode ends (its status) or the log is full (RUNNING).

    `episode` is its number. If its choices are given, nothing is scored or drawn.
    """
    look, act, rate = observe[0], step[0], score[0]
    ints, floats, context, image, candidates, feasible = uncounted(memory)
    scores, probabilities, step_outputs, totals = uncounted(arrays)
    parameters, temperature, epsilon = uncounted(drawing)
    choices, given_probabilities = uncounted(given)
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
        n = look(ints, floats, context, image, candidates, feasible)
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
                log_probabilities[value + i] = given_probabilities[cursor[3] + i]
            cursor[3] += n
        else:
            shown = scores[:n]
            rate(context, candidates, feasible, parameters, shown)
            choice = policy.draw_choice(shown, feasible, temperature, epsilon, draws, probabilities)
            policy.fill_probabilities(shown, feasible, temperature, epsilon, probabilities)
            for i in range(n):
                log_probabilities[value + i] = probabilities[i]
        propensity[row] = log_probabilities[value + choice]
        status = act(ints, floats, choice, step_outputs)
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
        self._given = GivenChoices(np.zeros(0, np.int64), np.zeros(0, np.float32))
        if played is not None:
            self._given = GivenChoices(played.choices, played.probabilities)
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
                cell(self._scenario.observe),
                cell(self._scenario.step),
                cell(self._score),
                self._memory,
                self._arrays,
                self._behaviour.drawing(self.parameters),
                draws_of(self._rng),
                self._given,
                self._episode,
                log,
            )
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
