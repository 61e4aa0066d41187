"""Rules that choose from the memory of an episode and not from its observations.

A policy sees observations alone. A few references need more: a clairvoyant rule knows run times,
and a recorded schedule is no function of what a policy sees. They are compiled functions

    choose(ints, floats) -> choice

over the memory, which `step` then applies. They must not depend on `observe`. No other policy is
given the memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import (
    EpisodeArrays,
    StepArrays,
    begin_episode,
    make_step_arrays,
)
from hindcast.pipeline.simulation.functions import ChooseCell, ObserveCell, StepCell, cell
from hindcast.pipeline.simulation.kernel import Compiled, Ints, compiled
from hindcast.pipeline.simulation.players import EpisodeTrace, Probabilities, values_at_end
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.simulation.uncounted import uncounted


@dataclass(frozen=True)
class MemoryRule:
    """A compiled rule over the memory of an episode. It draws nothing.

    Attributes:
        name: Name of the rule in recipes and tables.
        choose: Compiled function with the signature `hindcast.pipeline.simulation.kernel.CHOOSE`.
        description: One line that says which candidate the rule chooses.
        formula: One line that says how.
        kind: "heuristic"; "knows run times" for a rule that uses them before they are over; or
            "recorded" for a schedule that was recorded elsewhere.
        needs: Columns of the candidates without which the rule cannot be recorded.
        check: Function of an instance that raises InputError where the rule has no meaning.
        exploration: Its epsilon and temperature, which are 0.
    """

    name: str
    choose: Compiled
    description: str = ""
    formula: str = ""
    kind: Literal["heuristic", "knows run times", "recorded"] = "heuristic"
    needs: tuple[str, ...] = ()
    check: Callable[[Instance], None] | None = None
    exploration: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def episode(self, scenario: Scenario, spec: Spec, instance: Instance) -> Episode:
        """Play one episode on an instance."""
        return play_rule(scenario, spec, instance, self)[0]

    def episode_runner(
        self, scenario: Scenario, spec: Spec, instance: Instance, temperature: float, epsilon: float
    ) -> "MemoryRuleRunner":
        """Return a runner for an episode. Raises HindcastError for a rule that explores."""
        if temperature > 0 or epsilon > 0:
            raise HindcastError(
                f"{self.name} chooses from the memory and cannot explore: leave out epsilon and "
                "temperature"
            )
        return MemoryRuleRunner(scenario, spec, instance, self)


class RuleChoices(NamedTuple):
    """The decisions of an episode that are kept, or none: then the episode is not observed."""

    given: Ints  # (T,) the choice that is made, or -1 for that of the rule
    choices: Ints  # (T,) of the rule
    rows: Ints  # (T,) numbers of candidates


@compiled()
def _play(
    observe: ObserveCell,
    step: StepCell,
    choose: ChooseCell,
    episode: EpisodeArrays,
    arrays: StepArrays,
    kept: RuleChoices,
) -> int:
    """Play the T decisions of `kept`, or to the end for T = 0; add the step outputs to `totals`.

    Fills `kept` with the rule's choices and the numbers of candidates. The episode follows
    kept.given where it has a choice, else the rule. Returns 2 * steps + truncated, or INFEASIBLE.
    """
    look, act, select = observe[0], step[0], choose[0]
    ints, floats, context, image, candidates, feasible = uncounted(episode)
    _scores, _probabilities, step_outputs, totals = uncounted(arrays)
    given, choices, rows = uncounted(kept)
    steps, status = 0, k.RUNNING
    while steps < len(choices) or (len(choices) == 0 and status == k.RUNNING):
        if len(choices) > 0:
            rows[steps] = look(ints, floats, context, image, candidates, feasible)
        choice = select(ints, floats)
        if len(choices) > 0:  # the episode is observed: the rule's own choice can be checked
            choices[steps] = choice
            if choice >= rows[steps] or not feasible[choice]:
                return k.INFEASIBLE
            if given[steps] >= 0:
                choice = given[steps]
        status = act(ints, floats, choice, step_outputs)
        if status == k.INFEASIBLE:
            return k.INFEASIBLE
        steps += 1
        for i in range(len(step_outputs)):
            totals[i] += step_outputs[i]
    return 2 * steps + (status == k.TRUNCATED)


def play_rule(
    scenario: Scenario, spec: Spec, instance: Instance, rule: MemoryRule
) -> tuple[Episode, NDArray[np.int64], NDArray[np.float64]]:
    """Play one episode; return its summary and its memory at the end (ints, floats).

    Raises InputError if the rule has no meaning on the instance.
    """
    if rule.check is not None:
        rule.check(instance)
    memory, arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)
    code = _play(
        cell(scenario.observe),
        cell(scenario.step),
        cell(rule.choose),
        memory,
        arrays,
        _choices(np.empty(0, np.int64)),
    )
    ints, floats = memory[:2]
    if code == k.INFEASIBLE:
        raise HindcastError(f"rule {rule.name} made an infeasible choice in {scenario.name}")
    episode = finished_episode(
        scenario.outcome, spec, ints, floats, arrays.totals, code // 2, truncated=bool(code % 2),
        blocks=scenario.blocks,
    )  # fmt: skip
    return episode, ints, floats


class MemoryRuleRunner:
    """An episode runner (hindcast.pipeline.simulation.players) of a rule over the memory."""

    def __init__(
        self, scenario: Scenario, spec: Spec, instance: Instance, rule: MemoryRule
    ) -> None:
        self._scenario, self._spec, self._instance, self._rule = scenario, spec, instance, rule
        self._memory, self._arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)

    def play(self, rng: np.random.Generator) -> EpisodeTrace:  # noqa: ARG002 - of the protocol
        """Play the episode to its end, without random draws."""
        steps = play_rule(self._scenario, self._spec, self._instance, self._rule)[0].steps
        kept = self._decide(np.full(steps, -1))
        values = values_at_end(self._scenario, self._spec, *self._memory[:2], steps)
        return EpisodeTrace(kept.choices, _certain(kept), values)

    def follow(self, choices: NDArray[np.int64]) -> Probabilities:
        """Make the next choices; return the rule's probabilities at each of them."""
        return _certain(self._decide(np.ascontiguousarray(choices, np.int64)))

    def _decide(self, given: NDArray[np.int64]) -> RuleChoices:
        kept = _choices(given)
        if not len(given):
            return kept
        code = _play(
            cell(self._scenario.observe),
            cell(self._scenario.step),
            cell(self._rule.choose),
            self._memory,
            self._arrays,
            kept,
        )
        if code == k.INFEASIBLE:
            raise HindcastError(
                f"rule {self._rule.name} or the log made a choice that is not feasible"
            )
        return kept


def _choices(given: NDArray[np.int64]) -> RuleChoices:
    """Return arrays for the decisions with these choices."""
    return RuleChoices(given, *np.zeros((2, len(given)), np.int64))


def _certain(kept: RuleChoices) -> Probabilities:
    """Return the probability of every candidate: 1 for those chosen."""
    probabilities = np.zeros(int(kept.rows.sum()), np.float32)
    probabilities[np.cumsum(kept.rows) - kept.rows + kept.choices] = 1.0
    return probabilities
