"""Off-policy estimators: the return of a policy, estimated from episodes of other policies.

An estimator is a function (LoggedEpisodes, Settings) -> Draft. `estimate` adds intervals,
diagnostics and warnings. The best estimator depends on the log: the docstring of each module states
the assumptions of its estimators. With a simulator, their errors can be measured. The package needs
numpy alone.

In `ESTIMATORS`, those whose intervals may keep their level stand first. The first of them that a
log does not refute is the reader's, mostly `snis`: the verdict on a policy is that on its estimate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hindcast.pipeline.errors import unknown_name
from hindcast.pipeline.estimators.doubly_robust import (
    direct_method,
    doubly_robust,
    weighted_doubly_robust,
)
from hindcast.pipeline.estimators.episodes import LoggedEpisodes
from hindcast.pipeline.estimators.estimate import Draft, Estimate, Settings, finish
from hindcast.pipeline.estimators.importance import (
    importance_sampling,
    per_decision,
    self_normalised,
    self_normalised_per_decision,
)
from hindcast.pipeline.estimators.intervals import Concentration
from hindcast.pipeline.estimators.logged_policies import LoggedPolicies
from hindcast.pipeline.estimators.marginalised import minimax_weights
from hindcast.pipeline.estimators.policy_regression import policy_regression
from hindcast.pipeline.estimators.windows import (
    paired_importance_sampling,
    paired_self_normalised,
    tempered,
)

__all__ = [
    "ESTIMATORS", "Concentration", "Estimate", "Estimator", "LoggedEpisodes", "LoggedPolicies",
    "Settings", "estimate",
]  # fmt: skip


@dataclass(frozen=True)
class Estimator:
    """An estimator by name, and the arrays of LoggedEpisodes that it needs.

    Attributes:
        name: Name on the command line and in tables.
        draft: Function that computes the estimate.
        description: One line for people, which begins with the standard name of the method.
        values: True if the estimator needs q and v.
        features: True if the estimator needs features, next_features and initial_features.
        policies: True if the estimator needs policies and to_policies.
        bias: Error that its intervals leave out, whatever the number of windows; "" if there is
            none. Its value is then `verdicts.BESIDE`, unless coverage was shown (`verdicts.Held`).
    """

    name: str
    draft: Callable[[LoggedEpisodes, Settings], Draft]
    description: str
    values: bool = False
    features: bool = False
    policies: bool = False
    bias: str = ""


_ALL: Final = (
    Estimator("snis", self_normalised,
              "self-normalised importance sampling: weights sum to one; biased, lower variance"),
    Estimator("paired_snis", paired_self_normalised,
              "paired self-normalised importance sampling: as paired_is, weights sum to one"),
    Estimator("snpdis", self_normalised_per_decision,
              "self-normalised per-decision importance sampling: weights sum to one at each step"),
    Estimator("is", importance_sampling,
              "importance sampling: weights whole episodes; unbiased, high variance"),
    Estimator("pdis", per_decision,
              "per-decision importance sampling: weights rewards step by step; unbiased"),
    Estimator("paired_is", paired_importance_sampling,
              "paired importance sampling: weights differences from the window's other episodes"),
    Estimator("dr", doubly_robust, "doubly robust: fitted values, corrected by weighted errors",
              values=True),
    Estimator("wdr", weighted_doubly_robust,
              "weighted doubly robust: doubly robust with weights that sum to one at each step",
              values=True),
    Estimator("gp", policy_regression,
              "Gaussian process over policies: similar policies of the log earn similar returns",
              policies=True, bias="the error of the similarity"),
    Estimator("tempered", tempered,
              "tempered importance sampling: weights to a power by window, to rank long episodes",
              bias="the pull to the log's mean"),
    Estimator("mwl", minimax_weights,
              "minimax weight learning: one weight per state and choice, linear in features",
              features=True, bias="the error of linear weights"),
    Estimator("dm", direct_method, "direct method: mean fitted value of the first states",
              values=True, bias="the error of the fitted values"),
)  # fmt: skip
ESTIMATORS: Final[Mapping[str, Estimator]] = {e.name: e for e in _ALL}


def estimate(
    name: str,
    episodes: LoggedEpisodes,
    settings: Settings | None = None,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """Return the estimate of the named estimator.

    The bootstrap draws from `rng`, or from a generator of seed 0 if `rng` is None. Raises
    UnknownName for an unknown name, and InputError if `episodes` lack an array that the estimator
    needs.
    """
    if name not in ESTIMATORS:
        raise unknown_name("estimator", name, ESTIMATORS)
    settings = settings or Settings()
    draft = ESTIMATORS[name].draft(episodes, settings)
    return finish(name, episodes, draft, settings, rng or np.random.default_rng(0))
