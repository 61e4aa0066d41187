"""Estimators for single logged decisions, on plain arrays.

    e = LoggedDecisions.of(lengths, chosen, propensity, reward)
    target = uniform(e)                       # (C,) probabilities of the policy asked about
    support(e, target).verdict                # can the log answer at all?
    values(e, target)["snis"]                 # value, standard error

`logged` says what the arrays are, `values` what the estimators are, `intervals` which interval
belongs to which rewards, `propensity_tests` whether the propensities can be those of the choices,
`estimated` what can be done without them.
"""

from hindcast.pipeline.estimators.decisions.estimated import (
    EstimatedPropensities,
    estimate_propensities,
    sensitivity,
)
from hindcast.pipeline.estimators.decisions.intervals import Interval, interval_of
from hindcast.pipeline.estimators.decisions.logged import (
    LoggedDecisions,
    best,
    first,
    uniform,
    weights,
)
from hindcast.pipeline.estimators.decisions.propensity_tests import (
    PropensityTests,
    check_propensities,
)
from hindcast.pipeline.estimators.decisions.reward_model import cross_fitted_ridge, folds_of
from hindcast.pipeline.estimators.decisions.support import Support, support
from hindcast.pipeline.estimators.decisions.values import Value, values

__all__ = [
    "EstimatedPropensities", "Interval", "LoggedDecisions", "PropensityTests", "Support", "Value",
    "best", "check_propensities", "cross_fitted_ridge", "estimate_propensities", "first",
    "folds_of", "interval_of", "sensitivity", "support", "uniform", "values", "weights",
]  # fmt: skip
