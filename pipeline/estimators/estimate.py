"""An off-policy estimate: the number, how sure it is, and whether it should be believed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.estimators.episodes import LARGEST_LOG, LoggedEpisodes
from pipeline.estimators.intervals import (
    Concentration,
    Replicate,
    bootstrap,
    empirical_bernstein,
    hoeffding,
)

Array = NDArray[np.float64]

_COVERED: Final = 1.0 - 1e-6


@dataclass(frozen=True)
class Settings:
    """How estimates are made.

    level, resamples   of all intervals; of the bootstrap
    range              lowest and highest that one unit can contribute, for the intervals that
                       need it; None takes the data's own, which is an assumption
    fewest, share      an effective sample size below either is warned of: in all, and as a share
                       of the episodes
    ridge              of linear systems, relative to their mean diagonal
    tempered           effective share of a window's episodes that tempered weights keep
    """

    level: float = 0.95
    resamples: int = 1000
    range: tuple[float, float] | None = None
    fewest: float = 5.0
    share: float = 0.05
    ridge: float = 1e-6
    tempered: float = 0.25

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise InputError(f"level is {self.level}, expected a number between 0 and 1")
        if self.range is not None and not self.range[0] < self.range[1]:
            raise InputError(f"range is {self.range}, expected its lower end first")


@dataclass(frozen=True)
class Draft:
    """What an estimator computes; `finish` adds the rest.

    contributions   (E,) whose mean is the value; of a ratio, its linear part around the value
    weights         log-weights that the estimator rests on; None where it rests on none
    replicate       the whole estimator for counts of units; None: the mean of contributions
    ess             effective episodes where they do not follow from `weights`
    """

    value: float
    contributions: Array
    weights: Array | None
    replicate: Replicate | None = None
    ess: float | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """An estimator's answer for one policy.

    value           expected (discounted) return of the evaluated policy
    difference      value - mean return of the log, whose windows are the same
    bootstrap, difference_bootstrap   percentile intervals over units
    hoeffding, bernstein              intervals from a range; see intervals.Concentration
    ess             effective number of episodes, (sum w)^2 / sum w^2; this and the next four are
                    NaN where the estimator rests on no weights of episodes
    mean_weight     1 in expectation; far from it the log misses what the policy does
    max_weight      the largest weight, and `largest_share` its share of their sum
    nonzero         share of episodes with a weight above zero
    coverage        share of the policy's probability on choices that the behaviour could make,
                    None where it is not known
    warnings        why it should not be believed, one sentence each; empty is good
    """

    name: str
    value: float
    difference: float
    bootstrap: tuple[float, float]
    difference_bootstrap: tuple[float, float]
    hoeffding: Concentration
    bernstein: Concentration
    episodes: int
    units: int
    ess: float
    mean_weight: float
    max_weight: float
    largest_share: float
    nonzero: float
    coverage: float | None
    contributions: Array
    warnings: tuple[str, ...]


def finish(
    name: str, e: LoggedEpisodes, draft: Draft, settings: Settings, rng: np.random.Generator
) -> Estimate:
    """Intervals, diagnostics and warnings around a draft."""
    units = len(e.sizes)
    replicate = draft.replicate or mean_replicate(draft.contributions, e)
    logged = mean_replicate(e.returns, e)
    state = rng.bit_generator.state
    interval = bootstrap(replicate, units, rng, settings.resamples, settings.level)
    rng.bit_generator.state = state  # the same draws, so that pairs stay together
    paired = bootstrap(
        lambda counts: replicate(counts) - logged(counts),
        units, rng, settings.resamples, settings.level,
    )  # fmt: skip
    # Units of different size: scaled so that their plain mean is the value.
    means = e.by_unit(draft.contributions) / e.sizes.mean()
    low, high = settings.range or (float(means.min()), float(means.max()))
    source = "data" if settings.range is None else "given"
    concentrated = [
        Concentration(*f(means, low, high, settings.level), (low, high), source)  # type: ignore[arg-type]
        for f in (hoeffding, empirical_bernstein)
    ]
    diagnosis = _diagnose(draft.weights)
    coverage = None if e.covered is None else float(e.covered.mean())
    warnings = [*draft.warnings]
    if draft.weights is not None:
        warnings += _weight_warnings(draft.weights, diagnosis, len(e), settings)
    if draft.ess is not None:
        diagnosis["ess"] = draft.ess
    if coverage is not None and coverage < _COVERED:
        warnings.append(
            f"{1.0 - coverage:.1%} of the policy's probability is on choices that the behaviour "
            "never makes: nothing in the log says what they lead to"
        )
    return Estimate(
        name=name,
        value=draft.value,
        difference=draft.value - float(e.returns.mean()),
        bootstrap=interval,
        difference_bootstrap=paired,
        hoeffding=concentrated[0],
        bernstein=concentrated[1],
        episodes=len(e),
        units=units,
        coverage=coverage,
        contributions=draft.contributions,
        warnings=tuple(warnings),
        **diagnosis,
    )


def mean_replicate(contributions: Array, e: LoggedEpisodes) -> Replicate:
    """The mean of contributions (E,) over resampled units."""
    sums = e.by_unit(contributions)
    return lambda counts: (counts @ sums) / (counts @ e.sizes)


def exp_weights(log_weights: Array) -> Array:
    """Weights of log-weights; those beyond the range of a double are cut."""
    return np.asarray(np.exp(np.minimum(log_weights, LARGEST_LOG)), np.float64)


def _diagnose(log_weights: Array | None) -> dict[str, float]:
    """The fields of an Estimate that describe weights."""
    names = "ess", "mean_weight", "max_weight", "largest_share", "nonzero"
    if log_weights is None:
        return dict.fromkeys(names, float("nan"))
    highest = log_weights.max()
    if np.isneginf(highest):
        return dict.fromkeys(names, 0.0) | {"largest_share": 1.0}
    scaled = np.exp(log_weights - highest)
    weights = exp_weights(log_weights)
    values = (
        float(scaled.sum() ** 2 / (scaled**2).sum()), float(weights.mean()), float(weights.max()),
        float(1.0 / scaled.sum()), float((scaled > 0.0).mean()),
    )  # fmt: skip
    return dict(zip(names, values, strict=True))


def _weight_warnings(
    log_weights: Array, diagnosis: Mapping[str, float], episodes: int, settings: Settings
) -> list[str]:
    if diagnosis["nonzero"] == 0.0:
        return ["no logged episode could have been the evaluated policy's: every weight is zero"]
    found = []
    ess, largest, mean_weight = (diagnosis[k] for k in ("ess", "largest_share", "mean_weight"))
    if ess < max(settings.fewest, settings.share * episodes):
        found.append(
            f"the weights leave {ess:.1f} of {episodes} episodes: the interval is too narrow, as "
            "rare large weights are missing from the sample"
        )
    if largest > 0.5:
        found.append(f"one episode carries {largest:.0%} of the weight")
    if not 0.5 <= mean_weight <= 2.0:
        found.append(
            f"weights average {mean_weight:.2g} where 1 is expected: the log misses most of what "
            "the policy would do"
        )
    if log_weights.max() > LARGEST_LOG:
        found.append("a weight is larger than a number can be and was cut")
    return found
