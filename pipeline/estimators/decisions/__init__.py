"""Estimators for single logged decisions, on plain arrays.

    e = LoggedDecisions.of(lengths, chosen, propensity, reward)
    target = uniform(e)                       # (C,) probabilities of the policy asked about
    support(e, target).verdict                # can the log answer at all?
    values(e, target)["snis"]                 # value, standard error

`logged` describes the arrays, `values` the estimators, `intervals` the interval of each kind of
rewards. `propensity_tests` compares the propensities with the choices; `estimated` estimates them
for a log that has none.
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
from hindcast.pipeline.estimators.decisions.propensity_tests import PropensityTests
from hindcast.pipeline.estimators.decisions.reward_model import cross_fitted_ridge, folds_of
from hindcast.pipeline.estimators.decisions.support import Support, support
from hindcast.pipeline.estimators.decisions.values import Value, values

__all__ = [
    "EstimatedPropensities", "Interval", "LoggedDecisions", "PropensityTests", "Support", "Value",
    "best", "cross_fitted_ridge", "estimate_propensities", "first",
    "folds_of", "interval_of", "sensitivity", "support", "uniform", "values", "weights",
]  # fmt: skip
