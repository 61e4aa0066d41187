"""The policy that a training delivers: the trained agent, or the rule it could not beat.

OUT/delivered is a checkpoint like any other. It holds the selected or the last checkpoint,
whichever does better in a test on validation windows, if the test finds it better than the best
rule. Otherwise it holds that rule: a network with weight 1 on the rank column of the rule
(hindcast.policies.networks.rules) and 0 elsewhere, which plays the rule exactly. A user who trains
therefore never gets a policy that is known to be worse than a rule at hand.

The test is one of hindcast.policies.training.delivery.played,
hindcast.policies.training.delivery.folds and hindcast.policies.training.delivery.agreement;
hindcast.policies.training.delivery.ahead adds a comparison that decides nothing. A log of
decisions, which has no simulator, has the test of hindcast.policies.training.delivery.weighed;
there the log's own policy may be the best, and nothing is written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.decisions import NAME as DECISIONS
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.statistics.percentile import percentile_interval
from hindcast.policies.heuristics import rankable
from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights, make_network

Gate: TypeAlias = Literal["simulator", "folds", "lookahead", "log"]
# The sign of five differences is the same by luck in 3.1 % of cases, more than one side of a 95 %
# interval leaves out; that of six in 1.6 %.
FEWEST_WINDOWS: Final = 6
_NEVER: Final = 1e30  # above every number of a log
AGENT: Final = "agent"
RULE: Final = "rule"
LOG: Final = "log"
Delivered: TypeAlias = Literal["agent", "rule", "log"]
SELECTED: Final = "selected"
LAST: Final = "last"


@dataclass(frozen=True)
class Ahead:
    """The comparison of what is delivered with a policy that looks ahead.

    Attributes:
        policy: Name of that policy.
        windows: Number of validation windows that both played.
        difference: Mean difference of the headline outcome, above 0 if the delivered one is better.
        low: Lower end of the paired 95 % interval; None for fewer than FEWEST_WINDOWS.
        high: Upper end of the interval.
        unguarded: Whether the training has a guard. That policy has not played its episodes.
    """

    policy: str
    windows: int
    difference: float
    low: float | None
    high: float | None
    unguarded: bool = False


@dataclass(frozen=True)
class Verdict:
    """The comparison of a trained agent with the best rule, and which of them is delivered.

    Attributes:
        delivered: "agent", "rule", or "log" where a log of decisions has no better policy.
        rule: Name of the best rule.
        metric: Name of what is compared: the headline outcome, "agreement" or "dr".
        windows: Number of windows of the comparison.
        difference: Mean difference of agent and rule over the windows, above 0 if the agent is
            better; None if no checkpoint was eligible.
        low: Lower end of the paired 95 % interval of the difference.
        high: Upper end of the interval.
        why: The sentence with the numbers that decided, for a log of decisions.
        ahead: The comparison with a policy that looks ahead, by the gate "lookahead".
    """

    delivered: Delivered
    rule: str
    metric: str
    windows: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""
    ahead: Ahead | None = None

    def as_table(self) -> dict[str, Any]:
        """Return the verdict as checkpoint.json has it, without `why` and `ahead` if not there."""
        optional = ("why", "ahead")
        return {name: of for name, of in asdict(self).items() if name not in optional or of}


# Function of the checkpoints of a training, by kind (SELECTED, LAST), that returns the one which is
# compared with the rule, and its verdict; None if nothing can be compared.
Decide = Callable[[Mapping[str, Trained]], tuple[Trained, Verdict] | None]


def compare(
    agent: NDArray[np.float64],
    rule: NDArray[np.float64],
    name: str,
    metric: str,
    *,
    seed: int,
    at_least: float = -np.inf,
) -> Verdict:
    """Return the verdict from values (W,) of an agent and of the rule `name` on the same windows.

    The agent is delivered if the interval of the difference is above 0, and its own values are
    above `at_least`. Fewer than FEWEST_WINDOWS have no interval, and the rule is delivered.
    """
    windows = len(rule)
    found = percentile_interval(agent - rule, seed=seed)
    if windows < FEWEST_WINDOWS:
        return Verdict(RULE, name, metric, windows, found.value)
    better = found.low > 0.0
    if better and np.isfinite(at_least):
        better = percentile_interval(agent - at_least, seed=seed).low > 0.0
    delivered: Delivered = AGENT if better else RULE
    return Verdict(delivered, name, metric, windows, found.value, found.low, found.high)


def rule_weights(spec: Spec, rule: str) -> tuple[Network, Weights]:
    """Return a network and weights that play a rule: weight 1 on its rank, 0 elsewhere."""
    if spec.scenario == DECISIONS:
        return feature_weights(spec, rule)
    settings = NetworkSettings(quadratic=False, logs=False, rules=(rule,))
    network = make_network(spec.context, spec.candidates, settings, scenario=spec.scenario)
    weights = {name: np.zeros(shape, np.float32) for name, shape in network.shapes.items()}
    weights["layer0.weight"][0, -1] = 1.0
    return network, weights


def feature_weights(spec: Spec, rule: str) -> tuple[Network, Weights]:
    """Return a network and weights that play `first`, `lowest:F` or `highest:F` of a log.

    A candidate whose feature is missing has a 0 there, and is taken only if all are.
    """
    kind, _, feature = rule.partition(":")
    names = [f.name for f in spec.candidates]
    missing = f"{feature}_missing"
    columns = tuple(name for name in (feature, missing) if name in names)
    settings = NetworkSettings(quadratic=False, logs=False, columns=columns)
    network = make_network(spec.context, spec.candidates, settings)
    weights = {name: np.zeros(shape, np.float32) for name, shape in network.shapes.items()}
    read = [names[column] for column in network.candidates.columns]
    if columns:
        layer = weights["layer0.weight"][0]
        layer[read.index(feature)] = -1.0 if kind == "lowest" else 1.0
        if missing in read:
            layer[read.index(missing)] = -_NEVER
    return network, weights


def rule_policy(spec: Spec, rule: str) -> LearnedPolicy:
    """Return the policy of `rule_weights`."""
    return LearnedPolicy(rule, *rule_weights(spec, rule), spec.context, spec.candidates)


def eligible_rules(spec: Spec) -> list[str]:
    """Return the deterministic rules over rows that the features of a spec allow."""
    features = {feature.name for feature in spec.candidates}
    return [name for name, r in rankable(spec.scenario).items() if features.issuperset(r.needs)]


def judge_each(
    candidates: Sequence[Trained], judge: Callable[[LearnedPolicy], Verdict | None]
) -> tuple[Trained, Verdict] | None:
    """Return the checkpoint with the largest difference from the rule, and its verdict.

    None if there is no verdict.
    """
    judged = ((one, judge(one.policy())) for one in candidates)
    return best_judged([(one, verdict) for one, verdict in judged if verdict is not None])


def best_judged(judged: Sequence[tuple[Trained, Verdict]]) -> tuple[Trained, Verdict] | None:
    """Return the checkpoint with the largest difference from the rule, and its verdict.

    None if there is none. Ties go to the first. Picking the better of two checkpoints biases its
    difference upwards; the interval test absorbs this.
    """

    def lead(one: tuple[Trained, Verdict]) -> float:
        difference = one[1].difference
        assert difference is not None  # it is None only without a policy
        return difference

    return max(judged, key=lead) if judged else None


def delivered(trained: Trained, verdict: Verdict) -> Trained | None:
    """Return what is delivered: the checkpoint that was compared with the rule, or the rule.

    None if it is the policy of a log: no checkpoint plays what the log did.
    """
    if verdict.delivered == LOG:
        return None
    if verdict.delivered == RULE:
        network, weights = rule_weights(trained.spec, verdict.rule)
        trained = replace(trained, network=network, weights=weights)
    return replace(trained, metrics=())
