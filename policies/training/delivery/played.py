"""The gate that plays: a test of the agent against the best rule on validation windows.

    rules     every rule plays train and validation windows, with the columns that it needs; the
              best one has the best mean of the headline outcome
    agent     the selected checkpoint and that rule play the validation windows; if the mean of the
              agent is higher and the scenario draws its windows, also FURTHER windows that are in
              no split
    verdict   the agent is delivered if the paired 95 % interval of the difference on all windows
              that were played is above 0

Windows of a trace that share jobs are not independent. The validation windows that are played share
no job, and are as many as possible.

A small advantage shows on many windows only. An agent that is not better on the validation windows
does not play the further ones.

Train windows say as much about a rule as others, since no rule is trained. With validation windows
alone, which may be few, the best of many rules would be the luckiest one.

The headline outcome is what evaluations compare. A return may weigh several costs otherwise.

An online agent's checkpoint was selected among several on some validation windows, so its mean on
them is too high by a little. An interval that excludes 0 leaves room for that; the mean alone would
not.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.evaluation.evaluate import BATCH
from hindcast.pipeline.recipes.problem import further_windows, make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.splits import evenly_spaced
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import Episode, Planner, plays_episodes, run_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario, with_added
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.heuristics import rankable
from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.training.delivery.verdict import RULE, Verdict, compare

MOST_WINDOWS: Final = 400  # train windows on which rules are compared
FURTHER: Final = 400
Value = Callable[[Episode], float]  # of an episode, higher is better


@dataclass(frozen=True)
class Windows:
    """Windows that rules and agents play.

    Attributes:
        scenario: Scenario that is played.
        spec: Spec of the scenario setting.
        instance: Function from a window to its instance, which is made in every call.
        train: Windows on which rules are compared, beside those for validation.
        validation: Windows on which an agent is compared with a rule.
        further: More such windows, for an agent that is better on those.
        seed: Seed of all random draws.
        workers: Threads that play; results do not depend on the number.
        stretch_of: Function from a window to its first job in a trace and the one after its last;
            None if windows never share jobs.
        wider: The same windows, whose candidates have all columns that settings add, for rules that
            need them; None if these have them.
    """

    scenario: Scenario
    spec: Spec
    instance: Callable[[int], Instance]
    train: Sequence[int]
    validation: Sequence[int]
    further: Sequence[int] = ()
    seed: int = 0
    workers: int = 1
    stretch_of: Callable[[int], tuple[int, int]] | None = None
    wider: "Windows | None" = None
    _made: dict[int, Instance] = field(default_factory=dict)

    def instance_of(self, window: int) -> Instance:
        """Return the instance of a window; make it on the first call."""
        if window not in self._made:
            self._made[window] = self.instance(window)
        return self._made[window]

    def shown_to(self, needs: Sequence[str]) -> "Windows":
        """Return these windows with the columns of the candidates that a rule needs."""
        known = {feature.name for feature in self.spec.candidates}
        return self if self.wider is None or known.issuperset(needs) else self.wider

    def apart(self, some: Sequence[int]) -> list[int]:
        """Return as many of the windows as possible that share no job, in order of the trace.

        Of the windows that are left, the one that ends first is taken next.
        """
        if self.stretch_of is None:
            return list(some)
        found: list[int] = []
        for window in sorted(some, key=lambda w: self._stretch(w)[::-1]):
            if not found or self._stretch(window)[0] >= self._stretch(found[-1])[1]:
                found.append(window)
        return found

    def in_order(self, some: Sequence[int]) -> list[int]:
        """Return the windows in the order of the trace."""
        return list(some) if self.stretch_of is None else sorted(some, key=self._stretch)

    def touched(self, held_out: Sequence[int]) -> list[int]:
        """Return the train and validation windows that share a job with one of `held_out`."""
        if self.stretch_of is None:
            return list(held_out)
        stretches = [self._stretch(w) for w in held_out]
        return [
            window for window in (*self.train, *self.validation)
            if any(self._share(self._stretch(window), stretch) for stretch in stretches)
        ]  # fmt: skip

    def _stretch(self, window: int) -> tuple[int, int]:
        assert self.stretch_of is not None
        return self.stretch_of(window)

    @staticmethod
    def _share(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one[0] < other[1] and other[0] < one[1]


def stretches_of(recipe: Recipe) -> Callable[[int], tuple[int, int]] | None:
    """Return the function from a window of a recipe to its stretch of the trace, or None."""
    stretch = load_scenario(recipe.scenario).stretch
    return None if stretch is None else partial(stretch, recipe.config)


def windows_of(recipe: Recipe, workload: Workload, seed: int, workers: int = 1) -> Windows:
    """Return the train and validation windows of a recipe."""
    scenario = load_scenario(recipe.scenario)
    config = with_added(scenario, recipe.config)
    spec = scenario.spec(recipe.config, recipe.objective)
    available = scenario.windows(recipe.config, workload)
    train, validation = (
        recipe.windows(split) if split in recipe.split else [] for split in ("train", "validation")
    )
    windows = Windows(
        scenario,
        spec,
        partial(make_instance, recipe, scenario, workload),
        train,
        validation,
        further_windows(recipe, available, FURTHER),
        seed,
        workers,
        stretches_of(recipe),
    )
    if config == recipe.config:
        return windows
    wider = replace(recipe, config=config)
    return replace(
        windows,
        wider=replace(
            windows,
            spec=scenario.spec(config, recipe.objective),
            instance=partial(make_instance, wider, scenario, workload),
            _made={},
        ),
    )


def judge_of(
    windows: Windows, names: Sequence[str]
) -> Callable[[LearnedPolicy | None], Verdict | None]:
    """Return the function that compares an agent with the best of the rules `names`.

    Its verdict is None without validation windows or without rules. The policy is None if a guard
    refused every checkpoint of the training. The rules play once, in the first comparison.
    """
    headline = windows.spec.outcomes[0]
    value = partial(headline_value, better=headline.better)

    @cache
    def best() -> str:
        return best_rule(windows, names, value)

    @cache
    def of_rule(played: tuple[int, ...]) -> NDArray[np.float64]:
        return values_of(windows, rankable(windows.scenario.name)[best()], played, value)

    def both(
        policy: LearnedPolicy, played: Sequence[int]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return values_of(windows, policy, played, value), of_rule(tuple(played))

    def judge(policy: LearnedPolicy | None) -> Verdict | None:
        validation = windows.apart(windows.validation)
        if not validation or not names:
            return None
        if policy is None:
            return Verdict(RULE, best(), headline.name, len(validation))
        agent, rule = both(policy, validation)
        if windows.further and agent.mean() > rule.mean():
            more = both(policy, windows.further)
            agent, rule = np.concatenate([agent, more[0]]), np.concatenate([rule, more[1]])
        return compare(agent, rule, best(), headline.name, seed=windows.seed)

    return judge


def with_columns(
    windows: Windows, judged: tuple[Trained, Verdict] | None
) -> tuple[Trained, Verdict] | None:
    """Return what was judged; if a rule is delivered, with the columns that it needs."""
    if judged is None or judged[1].delivered != RULE:
        return judged
    trained, verdict = judged
    shown = windows.shown_to(rankable(windows.scenario.name)[verdict.rule].needs)
    return (trained if shown is windows else replace(trained, spec=shown.spec)), verdict


def by_return(episode: Episode) -> float:
    """Return the return of an episode."""
    return episode.total


def headline_value(episode: Episode, better: str) -> float:
    """Return the headline outcome of an episode, or less it if lower is better."""
    return float(episode.outcomes[0]) * (1.0 if better == "higher" else -1.0)


def best_rule(windows: Windows, names: Sequence[str], value: Value = by_return) -> str:
    """Return the rule with the highest mean value on train and validation windows.

    Of more than MOST_WINDOWS train windows, evenly spaced ones are played.
    """
    known = rankable(windows.scenario.name)
    played = [*evenly_spaced(windows.train, MOST_WINDOWS), *windows.validation]
    means = {name: values_of(windows, known[name], played, value).mean() for name in names}
    return max(names, key=lambda name: float(means[name]))


def values_of(
    windows: Windows,
    policy: Heuristic | LearnedPolicy,
    played: Sequence[int],
    value: Value = by_return,
) -> NDArray[np.float64]:
    """Return the value of greedy choices on every window of `played`, (W,)."""
    return np.array([value(episode) for episode in episodes_of(windows, policy, played)])


def episodes_of(
    windows: Windows, policy: Heuristic | LearnedPolicy | Planner, played: Sequence[int]
) -> list[Episode]:
    """Return the episode of greedy choices on every window of `played`."""
    if isinstance(policy, Heuristic):
        windows = windows.shown_to(policy.needs)
    scenario, spec, behaviour = windows.scenario, windows.spec, Behaviour(policy.name, policy)

    def drawing(window: int) -> np.random.Generator:
        return generator(windows.seed, "greedy", window)

    def one(window: int) -> Episode:
        return run_episode(scenario, spec, windows.instance_of(window), behaviour, drawing(window))

    if plays_episodes(behaviour):
        with ThreadPoolExecutor(windows.workers) as pool:
            return list(pool.map(one, played))
    episodes: list[Episode] = []
    for start in range(0, len(played), BATCH):
        some = played[start : start + BATCH]
        instances = [windows.instance_of(window) for window in some]
        episodes += run_batched(scenario, spec, instances, behaviour, [drawing(w) for w in some])
    return episodes
