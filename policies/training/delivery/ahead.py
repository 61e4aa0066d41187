"""The gate `lookahead`: what is delivered, beside a policy that looks ahead.

    judged     as by the gate `simulator`, which decides what is delivered
    ahead      RULE@rollout with the rule of that comparison where the scenario draws futures,
               `rollout` with all rules where it hides the jobs to come
    compared   both play validation windows; the paired 95 % interval is in the verdict

A policy that looks ahead is not delivered: it is no network, and it takes longer for a decision.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.notes import tell
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.recipes.splits import evenly_spaced
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.pipeline.simulation.rollout import Planner
from hindcast.pipeline.simulation.scenario import Scenario
from hindcast.policies.heuristics import rankable
from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.rollouts.lookahead import imagined_rollouts_of_rule, rollouts_of_rules
from hindcast.policies.training.delivery.played import Windows, episodes_of, headline_value
from hindcast.policies.training.delivery.verdict import (
    AGENT,
    Ahead,
    Verdict,
    compare,
    eligible_rules,
)

# A window of `multicluster` takes a second of CPU time, so these take minutes. Logs have fewer.
MOST_WINDOWS: Final = 200
_ALL_RULES: Final = "rollout"


def name_of(scenario: Scenario, rule: str) -> str | None:
    """Return the policy that looks ahead with a rule, or with all; None if none can."""
    if not scenario.can_look_ahead:
        return None
    return f"{rule}@rollout" if scenario.imagines or scenario.samples else _ALL_RULES


def check(windows: Windows) -> None:
    """Raise InputError if no rule can look ahead on these windows."""
    scenario, some = windows.scenario, windows.validation[:1]
    why = "its simulator offers no copy of an episode without its future, or with a drawn one"
    if scenario.can_look_ahead:
        drawn = scenario.imagines or scenario.samples
        if not drawn or all(windows.instance_of(window).futures for window in some):
            return
        why = "these windows are not drawn from its settings, and no futures are either"
    raise InputError(
        f"--gate lookahead: no rule of scenario {scenario.name} can look ahead here, since "
        f"{why}; expected --gate simulator"
    )


def beside(
    windows: Windows, judged: tuple[Trained, Verdict] | None, *, guarded: bool = False
) -> tuple[Trained, Verdict] | None:
    """Return what was judged, its verdict with the comparison with a policy that looks ahead.

    `guarded` says that a guard decided which agents and rules may be delivered.
    """
    if judged is None:
        return None
    trained, verdict = judged
    rule = rankable(windows.scenario.name)[verdict.rule]
    ahead = policy_of(windows, rule)
    delivered = trained.policy() if verdict.delivered == AGENT else rule
    some = evenly_spaced(windows.apart(windows.validation), MOST_WINDOWS)
    tell(f"{ahead.name}, which looks ahead, plays {count_of(len(some), 'validation window')}")
    values, ms = _played(windows, delivered, some)
    of_ahead, ahead_ms = _played(windows.shown_to(rule.needs), ahead, some)
    if len(some) > 1:
        tell(
            f"CPU time of a decision: {ahead_ms:.2g} ms of {ahead.name}, {ms:.2g} ms of the "
            f"delivered {verdict.delivered}"
        )
    found = compare(values, of_ahead, ahead.name, verdict.metric, seed=windows.seed)
    assert found.difference is not None  # it is None only without a policy
    of = Ahead(ahead.name, len(some), found.difference, found.low, found.high, guarded)
    return trained, replace(verdict, ahead=of)


def policy_of(windows: Windows, rule: Heuristic) -> Planner:
    """Return the policy of `name_of`, as an evaluation plays it."""
    scenario, spec = windows.scenario, windows.shown_to(rule.needs).spec
    name = name_of(scenario, rule.name)
    assert name is not None  # see `check`
    if name != _ALL_RULES:
        return imagined_rollouts_of_rule(name, rule, spec, arrivals=scenario.imagines)
    known = rankable(scenario.name)
    return rollouts_of_rules(name, [known[one] for one in eligible_rules(spec)], spec)


def _played(
    windows: Windows, policy: Heuristic | LearnedPolicy | Planner, some: Sequence[int]
) -> tuple[NDArray[np.float64], float]:
    """Return headline values (W,) and CPU milliseconds of a decision after the first window.

    Kernels are loaded in the first window.
    """
    better = windows.spec.outcomes[0].better
    first, begun = episodes_of(windows, policy, some[:1]), time.process_time()
    timed = episodes_of(windows, policy, some[1:])
    ms = 1e3 * (time.process_time() - begun) / max(sum(episode.steps for episode in timed), 1)
    return np.array([headline_value(episode, better) for episode in [*first, *timed]]), ms
