"""An off-policy estimate: the value, its intervals, and warnings about its reliability."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.episodes import LARGEST_LOG, LoggedEpisodes
from hindcast.pipeline.estimators.intervals import (
    Concentration,
    Replicate,
    bootstrap,
    empirical_bernstein,
    hoeffding,
)
from hindcast.pipeline.estimators.verdicts import (
    ANSWERS,
    CANNOT,
    COVERED,
    ROUGHLY,
    of_mean_weight,
    off_one,
)

Array = NDArray[np.float64]

_ALL: Final = 1.0 - 1e-6
_ROUNDING: Final = 1e-3  # of products of stored probabilities (float32)


@dataclass(frozen=True)
class Settings:
    """Settings of the estimators and their intervals.

    Attributes:
        level: Confidence level of all intervals, between 0 and 1.
        resamples: Number of bootstrap resamples; below 1 there is no bootstrap interval.
        range: Lowest and highest contribution that a unit can have, for the intervals of Hoeffding
            and Bernstein. None takes the range of the data, which is an assumption.
        fewest: Effective number of episodes below which weights cannot answer.
        share: Effective share of the episodes below which weights cannot answer, 0 to 1.
        ridge: Ridge penalty of linear systems, relative to the mean of their diagonal; 0 or more.
        tempered: Effective share of a window's episodes that tempered weights keep, 0 to 1.
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
            raise InputError(
                f"range is {self.range}, expected the lower end first, then a larger one"
            )


@dataclass(frozen=True)
class Draft:
    """The result of an estimator before `finish` adds intervals, diagnostics and warnings.

    Attributes:
        value: The estimate.
        contributions: (E,) contributions of the episodes, whose mean is the value. For a ratio, its
            linear part around the value.
        weights: Log-weights that the estimate rests on, or None if it rests on no weights.
        replicate: The whole estimator as a function of counts of units; None means the mean of the
            contributions.
        ess: Effective number of episodes, if it does not follow from `weights`.
        warnings: Warnings of the estimator.
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

    Attributes:
        name: Name of the estimator.
        value: Expected (discounted) return of the evaluated policy.
        difference: Value minus the mean return of the log, which has the same windows.
        bootstrap: Expanded percentile interval of the value, over units.
        difference_bootstrap: Expanded percentile interval of the difference, over units.
        hoeffding: Interval of Hoeffding, see `intervals.Concentration`.
        bernstein: Empirical Bernstein interval, see `intervals.Concentration`.
        episodes: Number of episodes.
        units: Number of units.
        coverage: Share of the policy's probability on choices that the behaviour could make, or
            None if it is not known.
        contributions: (E,) contributions of the episodes.
        warnings: Reasons to doubt the estimate, one sentence each; empty if there are no doubts.
        verdict: ANSWERS, ROUGHLY or CANNOT (`verdicts`), by the weights, the support and the
            warnings; the bias of an estimator is not considered.
        ess: Effective number of episodes, (sum w)^2 / sum w^2. This field and the next four are NaN
            if the estimator uses no weights of episodes.
        mean_weight: Mean weight, 1 in expectation.
        max_weight: Largest weight.
        largest_share: Share of the largest weight in the sum of the weights.
        nonzero: Share of episodes with a weight above zero.
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
    verdict: str


def finish(
    name: str, e: LoggedEpisodes, draft: Draft, settings: Settings, rng: np.random.Generator
) -> Estimate:
    """Return the estimate of a draft: its value with intervals, diagnostics and warnings."""
    units = len(e.sizes)
    replicate = draft.replicate or mean_replicate(draft.contributions, e)
    logged = mean_replicate(e.returns, e)
    state = rng.bit_generator.state
    interval = bootstrap(replicate, units, rng, settings.resamples, settings.level)
    rng.bit_generator.state = state  # the same draws for both, so that they are paired
    paired = bootstrap(
        lambda counts: replicate(counts) - logged(counts),
        units, rng, settings.resamples, settings.level,
    )  # fmt: skip
    # Units differ in size: sums are scaled so that their plain mean is the value.
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
    few = not np.isfinite(draft.value)
    if draft.weights is not None:
        few |= bool(diagnosis["ess"] < max(settings.fewest, settings.share * len(e)))
        warnings += _weight_warnings(draft.weights, diagnosis, e, few=few)
    if draft.ess is not None:
        diagnosis["ess"] = draft.ess
    if coverage is not None and coverage < _ALL:
        warnings.append(
            f"{1.0 - coverage:.1%} of the policy's probability is on choices that the behaviour "
            "never makes: the log does not show their consequences"
        )
    none = few or (coverage is not None and coverage < COVERED)
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
        verdict=CANNOT if none else ROUGHLY if warnings else ANSWERS,
        **diagnosis,
    )


def mean_replicate(contributions: Array, e: LoggedEpisodes) -> Replicate:
    """Return a function from counts of units to the mean of contributions (E,)."""
    sums = e.by_unit(contributions)
    return lambda counts: (counts @ sums) / (counts @ e.sizes)


def exp_weights(log_weights: Array) -> Array:
    """Return the weights of log-weights, each at most exp(LARGEST_LOG)."""
    return np.asarray(np.exp(np.minimum(log_weights, LARGEST_LOG)), np.float64)


def _diagnose(log_weights: Array | None) -> dict[str, float]:
    """Return the fields of an Estimate that describe its weights."""
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
    log_weights: Array, diagnosis: Mapping[str, float], e: LoggedEpisodes, *, few: bool
) -> list[str]:
    """Return warnings about the weights of episodes, given as logarithms, (E,)."""
    if diagnosis["nonzero"] == 0.0:
        return [
            "the evaluated policy could not have played any logged episode: every weight is zero"
        ]
    warnings = []
    ess, largest, mean_weight = (diagnosis[k] for k in ("ess", "largest_share", "mean_weight"))
    if few:
        warnings.append(
            f"the weights leave {ess:.1f} of {len(e)} episodes: too few for an interval, since "
            "rare large weights are missing from the sample"
        )
    if largest > 0.5:
        warnings.append(f"one episode carries {largest:.0%} of the weight")
    units = len(e.sizes)
    with np.errstate(over="ignore", invalid="ignore"):
        away = e.by_unit(exp_weights(log_weights) - mean_weight)
        se = float(np.sqrt((away**2).sum() * units / max(units - 1, 1)) / len(e))
    if off_one(mean_weight, se, _ROUNDING):
        warnings.append(of_mean_weight(mean_weight, se))
    if log_weights.max() > LARGEST_LOG:
        warnings.append("a weight exceeds the range of a double and was cut")
    return warnings
