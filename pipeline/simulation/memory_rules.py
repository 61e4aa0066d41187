"""Rules that choose from the memory of an episode and not from its observations.

A policy sees observations alone. A few references need more: a clairvoyant rule knows run times,
and a recorded schedule is no function of what a policy sees. They are compiled functions

    choose(ints, floats) -> choice

over the memory, which `step` then applies. They must not depend on `observe`. No other policy is
given the memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EPISODE, begin_episode
from hindcast.pipeline.simulation.functions import CHOOSE_CELL, OBSERVE_CELL, STEP_CELL, cell
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, Compiled, compiled
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
    """

    name: str
    choose: Compiled
    description: str = ""
    formula: str = ""
    kind: Literal["heuristic", "knows run times", "recorded"] = "heuristic"
    needs: tuple[str, ...] = ()
    check: Callable[[Instance], None] | None = None

    def episode(self, scenario: Scenario, spec: Spec, instance: Instance) -> Episode:
        """Play one episode on an instance."""
        return play_rule(scenario, spec, instance, self)[0]

    def episode_runner(
        self,
        scenario: Scenario,
        spec: Spec,
        instance: Instance,
        temperature: float,
        epsilon: float,
    ) -> "MemoryRuleRunner":
        """Return a runner for an episode. Raises HindcastError for a rule that explores."""
        if temperature > 0 or epsilon > 0:
            raise HindcastError(
                f"{self.name} chooses from the memory and cannot explore: leave out epsilon and "
                "temperature"
            )
        return MemoryRuleRunner(scenario, spec, instance, self)


@compiled(
    types.int64(
        STEP_CELL, CHOOSE_CELL, INTS, FLOATS, FLOATS, FLOATS
    ))  # fmt: skip
def _play(step, choose, ints, floats, step_outputs, totals):  # type: ignore[no-untyped-def]
    """Play an episode to its end; return 2 * steps + truncated, or INFEASIBLE."""
    step, choose = step[0], choose[0]
    steps = 0
    while True:
        status = step(ints, floats, choose(ints, floats), step_outputs)
        if status == k.INFEASIBLE:
            return k.INFEASIBLE
        steps += 1
        for i in range(len(step_outputs)):
            totals[i] += step_outputs[i]
        if status != k.RUNNING:
            return 2 * steps + (status == k.TRUNCATED)


@compiled(
    types.int64(
        OBSERVE_CELL, STEP_CELL, CHOOSE_CELL,
        EPISODE, FLOATS, INTS, INTS, INTS,
    ))  # fmt: skip
def _follow(observe, step, choose, episode, step_outputs, given, choices, rows):  # type: ignore[no-untyped-def]
    """Fill the rule's choices and the numbers of rows; step by `given`, where it is at least 0.

    Returns the number of decisions that were made, fewer than asked if a choice is infeasible.
    """
    observe, step, choose = observe[0], step[0], choose[0]
    ints, floats, context, image, candidates, feasible = uncounted(episode)
    for at in range(len(choices)):
        rows[at] = observe(ints, floats, context, image, candidates, feasible)
        choices[at] = choose(ints, floats)
        if choices[at] >= rows[at] or not feasible[choices[at]]:
            return at
        choice = choices[at] if given[at] < 0 else given[at]
        if step(ints, floats, choice, step_outputs) == k.INFEASIBLE:
            return at
    return len(choices)


def play_rule(
    scenario: Scenario, spec: Spec, instance: Instance, rule: MemoryRule
) -> tuple[Episode, NDArray[np.int64], NDArray[np.float64]]:
    """Play one episode; return its summary and its memory at the end (ints, floats).

    Raises InputError if the rule has no meaning on the instance.
    """
    if rule.check is not None:
        rule.check(instance)
    ints, floats = instance.ints.copy(), instance.floats.copy()
    step_outputs, totals = np.zeros((2, k.TERMS + len(spec.reward_terms)))
    code = int(_play(cell(scenario.step), cell(rule.choose), ints, floats, step_outputs, totals))
    if code == k.INFEASIBLE:
        raise HindcastError(f"rule {rule.name} made an infeasible choice in {scenario.name}")
    episode = finished_episode(
        scenario.outcome, spec, ints, floats, totals, code // 2, truncated=bool(code % 2),
        blocks=scenario.blocks,
    )  # fmt: skip
    return episode, ints, floats


class MemoryRuleRunner:
    """An episode runner (hindcast.pipeline.simulation.players) of a rule over the memory."""

    def __init__(
        self, scenario: Scenario, spec: Spec, instance: Instance, rule: MemoryRule
    ) -> None:
        self._scenario, self._spec, self._instance, self._rule = scenario, spec, instance, rule
        self._arrays = begin_episode(spec, instance)

    def play(self, rng: np.random.Generator) -> EpisodeTrace:  # noqa: ARG002 - of the protocol
        """Play the episode to its end, without random draws."""
        steps = play_rule(self._scenario, self._spec, self._instance, self._rule)[0].steps
        choices, rows = self._decide(np.full(steps, -1))
        ints, floats = self._arrays[:2]
        values = values_at_end(self._scenario, self._spec, ints, floats, steps)
        return EpisodeTrace(choices, _certain(choices, rows), values)

    def follow(self, choices: NDArray[np.int64]) -> Probabilities:
        """Make the next choices; return the rule's probabilities at each of them."""
        return _certain(*self._decide(np.ascontiguousarray(choices, np.int64)))

    def _decide(self, given: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        choices, rows = np.zeros((2, len(given)), np.int64)
        step_outputs = np.zeros(k.TERMS + len(self._spec.reward_terms))
        made = _follow(
            cell(self._scenario.observe), cell(self._scenario.step), cell(self._rule.choose),
            self._arrays, step_outputs, given, choices, rows,
        )  # fmt: skip
        if made < len(given):
            raise HindcastError(
                f"rule {self._rule.name} or the log made a choice that is not feasible"
            )
        return choices, rows


def _certain(choices: NDArray[np.int64], rows: NDArray[np.int64]) -> Probabilities:
    """Return the probability of every candidate: 1 for those chosen."""
    probabilities = np.zeros(int(rows.sum()), np.float32)
    probabilities[np.cumsum(rows) - rows + choices] = 1.0
    return probabilities
