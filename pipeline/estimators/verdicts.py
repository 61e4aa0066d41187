"""Verdicts on estimates, and the clauses that say why, for logs of decisions and of simulators.

An estimate has one of four verdicts:

    answers           the interval holds the value as often as it says
    answers roughly   an interval, and a reason to doubt it
    beside            may be biased: a value beside the answers, without interval
    cannot answer     no interval; the reason says what the log lacks
"""

import math
from dataclasses import dataclass
from typing import Final

from hindcast.pipeline.statistics.distributions import beta_quantile

ANSWERS: Final = "answers"
ROUGHLY: Final = "answers roughly"
BESIDE: Final = "beside"
CANNOT: Final = "cannot answer"
COVERED: Final = 0.95  # share of a policy on choices that the log makes, below which there is none
PROMISED: Final = 0.9  # coverage that intervals of 95 % have at least
MEAN_WEIGHT: Final = (0.8, 1.25)
ERRORS: Final = 3.0
_SURE: Final = 0.95


def off_one(mean: float, se: float, rounding: float = 1e-6) -> bool:
    """Return whether a mean weight is too far from 1 for a plain answer."""
    # An error of 0 is that of weights which are all alike; rounding is no deviation then.
    off = abs(mean - 1.0) > ERRORS * (0.0 if math.isnan(se) else se) + rounding
    return off or not MEAN_WEIGHT[0] <= mean <= MEAN_WEIGHT[1]


def of_mean_weight(mean: float, se: float) -> str:
    """Return the clause about a mean weight off 1: in which direction propensities are wrong."""
    wrong = (
        "the propensities are too small for how often their choices were taken, or a few rare "
        "choices decide" if mean > 1.0 else
        "the propensities are too large for how often their choices were taken, or the log misses "
        "choices of the policy"
    )  # fmt: skip
    return f"a mean weight of {mean:.3g} (se {se:.2g}), expected 1: {wrong}"


def of_certainty(decisions: int) -> str:
    """Return the clause about a log whose choices were all certain."""
    return (
        f"every one of the {decisions:,} decisions with a choice was certain (p = 1): the log "
        "shows one candidate of each and nothing of the others"
    )


def holds(low: float, high: float, value: float) -> bool:
    """Return whether an interval holds a value, up to rounding; False for unknown ends."""
    slack = 1e-9 * max(1.0, abs(value))
    return low - slack <= value <= high + slack


@dataclass(frozen=True)
class Held:
    """Coverage of the intervals of an estimator on policies that were left out of a log.

    Attributes:
        policies: Policies that were left out and have an interval.
        held: Those whose return, and whose difference to the log, lie in the intervals.
    """

    policies: int = 0
    held: int = 0

    @property
    def shown(self) -> bool:
        """True if the coverage is known to be at least PROMISED, with 95 % confidence.

        29 of 29, 45 of 46 or 59 of 61 policies show it (Clopper & Pearson 1934), as if they were
        independent.
        """
        if not self.held:
            return False
        missed = self.policies - self.held
        return beta_quantile(1.0 - _SURE, float(self.held), missed + 1.0) >= PROMISED

    @property
    def refuted(self) -> bool:
        """True if the coverage is known to be below PROMISED, with 95 % confidence."""
        missed = self.policies - self.held
        return bool(missed) and beta_quantile(_SURE, self.held + 1.0, float(missed)) < PROMISED
