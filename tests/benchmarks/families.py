"""Family error of equal policies, and power at the minimum detectable effect.

    python -m tests.benchmarks families

A family is 24 policies beside one reference on the same windows. Scores are lognormal, as slowdowns
are; the reference is common to all, so that comparisons depend on each other.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.statistics.families import holm
from hindcast.pipeline.statistics.intervals import estimate
from tests.benchmarks.intervals import Case, power

COMPARISONS: Final = 24
_ERROR: Final = 0.05


def measure() -> Iterator[tuple[str, float, str]]:
    for windows in (10, 30, 200):
        adjusted, plain = family_errors(windows, 2000, seed=7)
        yield f"family error, {windows} windows, Holm", adjusted, "share"
        yield f"family error, {windows} windows, none", plain, "share"
        share, _ = power(Case("lognormal", windows, 1, 1), 2000, seed=8)
        yield f"power at the MDE, {windows} windows", share, "share"


def family_errors(windows: int, families: int, seed: int) -> tuple[float, float]:
    """Return how many families of equal policies show a difference: with Holm, and without."""
    rng = np.random.default_rng(seed)
    found = np.zeros(2)
    for _ in range(families):
        reference = rng.lognormal(size=windows)
        tables = [_scores(rng, reference) for _ in range(COMPARISONS)]
        p = [estimate(one).p_value for one in tables]
        found += [(holm(p) < _ERROR).any(), min(p) < _ERROR]
    return tuple(found / families)


def _scores(rng: np.random.Generator, reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return differences of an equal policy to the reference as cells (1, 1, windows)."""
    return (rng.lognormal(size=reference.size) - reference)[None, None, :]
