"""Compiled replay of recorded choices: finds the first row that differs from the simulator."""

from typing import Annotated, Final, NamedTuple, TypeAlias

import numpy as np
from numba import types

from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EpisodeArrays, StepArrays
from hindcast.pipeline.simulation.draws import Draws
from hindcast.pipeline.simulation.functions import ObserveCell, ScoreCell, StepCell
from hindcast.pipeline.simulation.kernel import INFEASIBLE, RUNNING, TERMINATED, TRUNCATED, compiled
from hindcast.pipeline.simulation.policy import Drawing, draw_choice, fill_probabilities
from hindcast.pipeline.simulation.uncounted import uncounted

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
PROBABILITIES: Final = 13  # index of the fault of probabilities of another policy
SUM_TOLERANCE: Final = 1e-5  # absolute, of the sum of probabilities that are stored as float32
TOLERANCE: Final = 1e-6  # relative, of one probability
LEAST: Final = 1e-44  # absolute, a few of the smallest numbers of float32

# members of `state` of a replay
STATUS: Final = 0
TOTAL: Final = 1  # sum of rewards
NOT_DRAWN: Final = 2  # number of choices that the behaviour does not draw
FIRST_NOT_DRAWN: Final = 3  # row of the first of them


class LoggedColumns(NamedTuple):
    """The columns of a Block (pipeline.dataset.part) that a replay compares with the simulator."""

    offsets: k.Ints
    candidates: k.Singles2
    feasible: k.Mask
    probabilities: k.Singles
    context: k.Singles2
    time_s: k.Floats
    choice: k.Ints
    propensity: k.Singles
    reward: k.Floats
    elapsed_s: k.Floats
    terms: k.Rows
    terminated: k.Mask
    truncated: k.Mask
    image: k.Images


# what a replay compares of a rule
NOTHING: Final = 0
ITS_PROBABILITIES: Final = 1
ITS_DRAWS: Final = 2  # its probabilities as well

_Fault: TypeAlias = Annotated[tuple[int, int], types.UniTuple(types.int64, 2)]


@compiled()
def replay(
    observe: ObserveCell,
    step: StepCell,
    score: ScoreCell,
    episode: EpisodeArrays,
    arrays: StepArrays,
    drawing: Drawing,
    draws: Draws,
    compared: int,
    log: LoggedColumns,
    state: k.Floats,
    first: int,
    stop: int,
) -> _Fault:
    """Replay rows first..stop-1 of one episode; return (fault, row), fault 0 if all rows match.

    The logged probabilities are compared with those of the rule `score`, and its choices are drawn
    as a recording draws them, as far as they are `compared`. `state` is passed from
    block to block of a long episode. Choices that are not the drawn ones are counted there: the
    logged choice is made, and the replay continues.
    """
    look, act, rate = observe[0], step[0], score[0]
    ints, floats, context, image, candidates, feasible = uncounted(episode)
    scores, probabilities, step_outputs, _totals = uncounted(arrays)
    parameters, temperature, epsilon = uncounted(drawing)
    log = uncounted(log)
    offsets, choice, propensity = log.offsets, log.choice, log.propensity
    log_candidates, log_probabilities = log.candidates, log.probabilities
    status = int(state[STATUS])
    for row in range(first, stop):
        closing = choice[row] < 0
        if closing == (status == RUNNING):
            return 14, row
        time_s = floats[k.TIME]
        n = look(ints, floats, context, image, candidates, feasible)
        start = offsets[row]
        if offsets[row + 1] - start != n:
            return 1, row
        for i in range(n):
            for f in range(log_candidates.shape[1]):
                if np.float32(candidates[i, f]) != log_candidates[start + i, f]:
                    return 2, row
            if feasible[i] != log.feasible[start + i]:
                return 3, row
        for c in range(len(context)):
            if np.float32(context[c]) != log.context[row, c]:
                return 4, row
        for p in range(len(image)):
            if image[p] != log.image[row, p]:
                return 15, row
        if time_s != log.time_s[row]:
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
        if not abs(total - 1.0) <= SUM_TOLERANCE:
            return 12, row
        if propensity[row] != log_probabilities[start + chosen] or not propensity[row] > 0.0:
            return 11, row
        if compared >= ITS_PROBABILITIES:
            shown = scores[:n]
            rate(context, candidates, feasible, parameters, shown)
            if compared == ITS_DRAWS:
                own = draw_choice(shown, feasible, temperature, epsilon, draws, probabilities)
                if own != chosen:
                    if state[NOT_DRAWN] == 0.0:
                        state[FIRST_NOT_DRAWN] = row
                    state[NOT_DRAWN] += 1.0
            fill_probabilities(shown, feasible, temperature, epsilon, probabilities)
            for i in range(n):
                expected = float(np.float32(probabilities[i]))
                logged = float(log_probabilities[start + i])
                if not abs(expected - logged) <= TOLERANCE * max(expected, logged) + LEAST:
                    return 13, row
        status = act(ints, floats, chosen, step_outputs)
        if status == INFEASIBLE:
            return 6, row
        if step_outputs[k.REWARD] != log.reward[row]:
            return 7, row
        if step_outputs[k.ELAPSED] != log.elapsed_s[row]:
            return 8, row
        for term in range(log.terms.shape[1]):
            if step_outputs[k.TERMS + term] != log.terms[row, term]:
                return 9, row
        if (status == TERMINATED) != log.terminated[row]:
            return 10, row
        if (status == TRUNCATED) != log.truncated[row]:
            return 10, row
        state[TOTAL] += step_outputs[k.REWARD]
    state[STATUS] = status
    return FINE, stop
