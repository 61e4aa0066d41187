"""Support of a policy in a log, before any estimate of its value.

    answers           ESS of at least 50, mean weight within 3 standard errors of 1 and in
                      .8 .. 1.25, at least 95 % of the policy's probability covered, propensities
                      not contradicted, no decision with over a tenth of the weight, an ESS of
                      at most twice the expected one, and a skewness of the weights of at most .2
    answers roughly   ESS of at least 10, or one of the others not so
    cannot answer     else

ESS is the effective number of decisions, (sum s w)^2 / sum (s w)^2. Where all probabilities are
logged, the mean of w^2 is known before anything is drawn: an ESS far above the one that follows
from it says that the rare decisions of large weight were not drawn, so that the errors are too
small.

The skewness is sum (s (w - mean w))^3 / (sum (s w)^2)^1.5: the third moment of the error of an
estimate whose rewards do not depend on the weights, in units of its standard deviation. Above .2
intervals of 95 % held the value in 80 to 92 % of simulated logs. Where all probabilities are logged
it is the expected one. Where they are not, large weights that were not drawn cannot be seen. Those
of the uniform policy then tell how rare the taken candidates can be: a skewness of theirs above .1
is no plain answer for a policy that uses less than half of the decisions.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from hindcast.pipeline.estimators.decisions.logged import (
    Array,
    LoggedDecisions,
    uniform,
    weights,
)
from hindcast.pipeline.estimators.decisions.values import standard_error, weighted_mean
from hindcast.pipeline.estimators.verdicts import (
    ANSWERS,
    CANNOT,
    COVERED,
    ERRORS,
    MEAN_WEIGHT,
    ROUGHLY,
    of_certainty,
    of_mean_weight,
    off_one,
)

ENOUGH: Final = 50.0
FEWEST: Final = 10.0
LARGEST: Final = 0.1  # share of one weight that is told
SKEWED: Final = 0.2  # skewness of the weights that is told
SMALL: Final = 0.05  # probability from which a candidate is well supported
_UNSEEN: Final = 2.0  # ESS over the expected one
_HIDDEN: Final = 0.1  # that of uniform choices, where the taken ones' propensities are logged alone
_QUANTILE: Final = 3.84  # of chi-square with 1 degree of freedom, 95 %


@dataclass(frozen=True)
class Support:
    """Support of a policy in a log.

    Attributes:
        decisions: Number of decisions in weights.
        units: Number of units.
        ess: Effective number of decisions.
        ess_units: Effective number of units, by their mean weights.
        mean_weight: Mean weight, 1 in expectation where the log covers the policy.
        mean_weight_se: Its standard error by unit.
        largest_weight: Largest weight.
        largest_share: Its share in the sum of the weights.
        largest_at: Number of the decision with the largest weight.
        covered: Share of the policy's probability on candidates with p > 0; NaN if not logged.
        well_covered: The same with p of at least .05.
        changed: Share of decisions in which its choice is not the log's most likely candidate; NaN
            without all probabilities.
        disagrees: Share of the policy's probability that is not on the taken candidate.
        verdict: ANSWERS, ROUGHLY or CANNOT.
        why: Reasons of the verdict, one clause each.
        expected_ess: The ESS that follows from the logged probabilities; NaN without all of them.
        skewness: Skewness of the weights, the expected one where all probabilities are logged.
    """

    decisions: int
    units: int
    ess: float
    ess_units: float
    mean_weight: float
    mean_weight_se: float
    largest_weight: float
    largest_share: float
    largest_at: int
    covered: float
    well_covered: float
    changed: float
    disagrees: float
    verdict: str
    why: tuple[str, ...]
    expected_ess: float = float("nan")
    skewness: float = float("nan")

    @property
    def passed(self) -> tuple[float, float]:
        """Deviations of the mean weight from 1, in standard errors, that a plain answer may have.

        Infinite for another verdict, and where a plain answer may have three standard errors.
        """
        if self.verdict != ANSWERS or not self.mean_weight_se > (1.0 - MEAN_WEIGHT[0]) / ERRORS:
            return -math.inf, math.inf
        low, high = ((end - 1.0) / self.mean_weight_se for end in MEAN_WEIGHT)
        return max(low, -ERRORS), min(high, ERRORS)


def effective(s: Array) -> float:
    """Return the effective number of weighted items, 0 if none has weight."""
    total = float((s**2).sum())
    return float(s.sum()) ** 2 / total if total > 0.0 else 0.0


def support(e: LoggedDecisions, target: Array, contradicted: str = "") -> Support:
    """Return the support of a policy with probabilities `target` (C,).

    `contradicted` is why the propensities are not those of the choices; "" if they may be.
    """
    w = weights(e, target)
    s = e.weight * w
    mean = float(s.sum() / e.weight.sum())
    complete = bool((e.complete | ~e.several).all())
    per_unit = np.asarray(np.bincount(e.unit, s), np.float64)
    at = int(np.argmax(w)) if len(w) else -1
    se = standard_error(e, w - mean)
    ess = effective(s)
    covered = _covered(e, target, 0.0) if complete else float("nan")
    share = float(s.max(initial=0.0) / s.sum()) if s.any() else 0.0
    expected, skewness = (
        _expected(e, target) if complete else (float("nan"), skewness_of(w, e.weight))
    )
    verdict, why = _verdict(e, ess, mean, se, covered, contradicted)
    unseen = []
    if share > LARGEST:
        unseen.append(f"one decision carries {share:.0%} of the weight")
    if ess > _UNSEEN * expected:
        unseen.append(
            f"{ess:.1f} effective decisions where {expected:.1f} are expected by the probabilities "
            "of the log: rare ones of large weight were not drawn"
        )
    if skewness > SKEWED:
        unseen.append(
            f"its weights are skewed ({skewness:.2f}, at most {SKEWED:g} for a plain answer): few "
            "decisions carry the error, so that intervals are too short"
        )
    elif not complete and 2.0 * ess < len(e) and (hidden := _of_uniform(e)) > _HIDDEN:
        unseen.append(
            "the log tells the propensities of the taken candidates alone, and some are rare (the "
            f"weights of uniform choices have a skewness of {hidden:.2f}, at most {_HIDDEN:g} for "
            "a plain answer): large weights that were not drawn cannot be seen"
        )
    if verdict == ANSWERS and unseen:
        verdict, why = ROUGHLY, tuple(unseen)
    return Support(
        decisions=len(e), units=e.units, ess=ess, ess_units=effective(per_unit),
        mean_weight=mean, mean_weight_se=se, largest_weight=float(w.max(initial=0.0)),
        largest_share=share, largest_at=at, covered=covered,
        well_covered=_covered(e, target, SMALL) if complete else float("nan"),
        changed=weighted_mean(e, 1.0 - _total(e, target * e.likely)) if complete else float("nan"),
        disagrees=weighted_mean(e, 1.0 - target[e.taken]),
        verdict=verdict, why=why, expected_ess=expected, skewness=skewness,
    )  # fmt: skip


def _verdict(
    e: LoggedDecisions, ess: float, mean: float, se: float, covered: float, contradicted: str
) -> tuple[str, tuple[str, ...]]:
    """Return the verdict on a policy, and what speaks against a better one.

    `ess` is in decisions, `mean` and `se` are of the weights, and `covered` is the probability of
    the policy on candidates that the log takes. `contradicted` says why the propensities are wrong,
    if they are.
    """
    choice = e.several
    certain = bool(choice.any() and (e.propensity[choice] >= 1.0 - 1e-9).all())
    bad = []
    if contradicted:
        bad.append(contradicted)
    if certain and mean < 1.0 - 1e-9:
        bad.append(of_certainty(int(choice.sum())))
    if ess < FEWEST:
        bad.append(f"{ess:.1f} effective decisions, fewer than {FEWEST:.0f}")
    if covered < COVERED:
        bad.append(
            f"{1 - covered:.0%} of its probability is on candidates that the log never takes"
        )
    if bad:
        return CANNOT, tuple(bad)
    rough = []
    if ess < ENOUGH:
        rough.append(f"{ess:.1f} effective decisions, fewer than {ENOUGH:.0f}")
    if off_one(mean, se):
        rough.append(of_mean_weight(mean, se))
    return (ROUGHLY, tuple(rough)) if rough else (ANSWERS, ())


def _covered(e: LoggedDecisions, target: Array, above: float) -> float:
    """Return the share of a policy's probability on candidates with more than a probability."""
    alone = ~e.several[e.owner]
    taken = e.probability >= above if above > 0.0 else e.probability > 0.0
    return weighted_mean(e, _total(e, target * (taken | alone)))


def _expected(e: LoggedDecisions, target: Array) -> tuple[float, float]:
    """Return the expected ESS and the expected skewness of the weights of a policy.

    `target` holds its probabilities of all candidates. The k-th moment of a decision's weight is
    the sum of target^k / p^(k - 1) over its candidates.
    """
    there = np.where(e.probability > 0.0, target, 0.0)
    ratio = there / np.where(e.probability > 0.0, e.probability, 1.0)
    one, two, three = (
        np.where(e.several, _total(e, moment), 1.0)
        for moment in (there, ratio * there, ratio**2 * there)
    )
    squares = float((e.weight**2 * two).sum())
    if not squares > 0.0:
        return float("nan"), float("nan")
    third = three - 3.0 * one * two + 2.0 * one**3
    return float(e.weight.sum() ** 2 / squares), float((e.weight**3 * third).sum() / squares**1.5)


def _of_uniform(e: LoggedDecisions) -> float:
    """Return the skewness of the weights of uniform choices."""
    return skewness_of(weights(e, uniform(e)), e.weight)


def skewness_of(w: Array, weight: Array) -> float:
    """Return the skewness of weights w, see this module; 0 if none has weight."""
    squares = float(((weight * w) ** 2).sum())
    third = float(((weight * (w - (weight * w).sum() / weight.sum())) ** 3).sum())
    return third / squares**1.5 if squares > 0.0 else 0.0


def bounds(e: LoggedDecisions, target: Array) -> tuple[float, float]:
    """Return the values if the uncovered share had the lowest or the highest reward seen."""
    covered = _covered(e, target, 0.0)
    part = weighted_mean(e, weights(e, target) * e.reward)
    return (
        part + (1.0 - covered) * float(e.reward.min()),
        part + (1.0 - covered) * float(e.reward.max()),
    )


def decisions_needed(
    spread: float, candidates: float, half_width: float, epsilon: float = 0.1
) -> float:
    """Return the decisions that give +- half_width, if a share epsilon is drawn uniformly.

    A deterministic policy keeps N epsilon / n of the N decisions in which it disagrees with the
    log; `spread` is the standard deviation of the reward around its model.
    """
    return _QUANTILE * spread**2 * candidates / (epsilon * half_width**2)


def _total(e: LoggedDecisions, values: Array) -> Array:
    return np.asarray(np.bincount(e.owner, values, len(e)), np.float64)
