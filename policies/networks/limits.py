"""Limits of the values of observations that compiled rules may read.

A compiled rule uses some features as indices and lengths, without bounds checks. Observations of a
simulator are within the ranges of its spec. A log may come from anywhere, so its values are checked
before a rule reads them: a value must be a finite number within the range of its feature. A
feature without a bound may be as large as a number of a workload.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.simulation.kernel import FLOATS, compiled
from hindcast.pipeline.simulation.spec import Feature
from hindcast.pipeline.workloads.schema import LARGEST

_ROUNDING: Final = 1e-6  # of float32, in which logs are stored, relative to the bounds


@dataclass(frozen=True, eq=False)
class Limits:
    """Smallest and largest values of the columns of an array.

    Attributes:
        features: The features, with the ranges that are stated.
        low: (F,) smallest values.
        high: (F,) largest values.
    """

    features: tuple[Feature, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def require(self, values: NDArray[np.floating], where: str) -> None:
        """Raise DatasetError for the first of values (M, F) that is not within its limits."""
        kind = np.float32 if values.dtype == np.float32 else np.float64
        row = int(_first_outside(np.ascontiguousarray(values, kind), self.low, self.high))
        if row < 0:
            return
        inside = (values[row] >= self.low) & (values[row] <= self.high)
        column = int(np.flatnonzero(~inside)[0])
        feature = self.features[column]
        low, high = max(feature.low, -LARGEST), min(feature.high, LARGEST)
        raise DatasetError(
            f"{where}: {feature.name} is {values[row, column]:g}, expected {low:g} to {high:g}; "
            "rules cannot read this observation, see `hindcast verify`"
        )


def limits_of(features: Sequence[Feature]) -> Limits:
    """Return the limits of features; rounding to float32 does not exceed them."""
    low, high = np.array([(f.low, f.high) for f in features], np.float64).reshape(-1, 2).T
    sizes = [np.where(np.isfinite(bound), np.abs(bound), 0.0) for bound in (low, high)]
    slack = _ROUNDING * np.maximum(np.maximum(*sizes), 1.0)
    return Limits(
        tuple(features),
        np.maximum(low - slack, -LARGEST),
        np.minimum(high + slack, LARGEST),
    )


@compiled([
    types.int64(types.Array(kind, 2, "C", readonly=True), FLOATS, FLOATS)
    for kind in (types.float32, types.float64)
])  # fmt: skip
def _first_outside(values: Any, low: Any, high: Any) -> Any:
    """Return the first row of values (M, F) with one that is outside or not a number, or -1."""
    for i in range(len(values)):
        inside = True
        for j in range(len(low)):
            inside &= (values[i, j] >= low[j]) & (values[i, j] <= high[j])
        if not inside:
            return i
    return -1
