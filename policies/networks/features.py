"""Feature maps from raw rows to network inputs: logs, products, standardised columns; no torch.

    raw columns          x1 .. xn, the columns that a learner may use, without identifiers
    base                 b_i = log1p(x_i) where heavy-tailed, else x_i
    expanded             x1 .. xn | log1p of the heavy-tailed | b_i * b_j for i <= j (products)
    network input        (expanded - mean) * inverse

Columns that rules fill (hindcast.policies.networks.rules) are the last of x1 .. xn and take no part
in the products. Without logs, as in published agents, no column counts as heavy-tailed.

For six columns of which two are heavy-tailed the quadratic map has 6 + 2 + 21 = 29 numbers.
The map is derived from `hindcast.pipeline.simulation.spec.Feature`; mean and inverse come from the
training data and are stored in the checkpoint. Training and acting share one compiled expansion.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.simulation.kernel import (
    FLOATS,
    Floats,
    Ints,
    Mask,
    Singles,
    compiled,
    compiled_type,
)
from hindcast.pipeline.simulation.spec import Feature
from hindcast.pipeline.simulation.uncounted import uncounted

_FITTED_ROWS: Final = 1 << 18  # two digits more precise than training can notice
_CONSTANT: Final = 1e-6  # deviation over size below which a column counts as constant
_ONE: Final = np.uint64(1)

COLUMNS = types.Array(types.int64, 1, "C", readonly=True)
ROWS = types.Array(types.float64, 2, "C", readonly=True)
INPUTS = types.Array(types.float32, 1, "C")
GivenRows: TypeAlias = Annotated[NDArray[np.float64], ROWS]


class FeatureMap(NamedTuple):
    """The map from raw rows to network inputs, with its constants, as compiled code takes it.

    Attributes:
        columns: (n,) raw columns that are read.
        heavy: (n,) which of these columns are heavy-tailed.
        products: Number of leading columns whose squares and products are inputs.
        mean: (E,) float64, subtracted from the expanded row.
        inverse: (E,) float64, one over the standard deviation; 0 if the column was constant in
            training, so that an untrained weight cannot act on it later.
    """

    columns: Ints
    heavy: Mask
    products: int
    mean: Floats
    inverse: Floats

    @property
    def size(self) -> int:
        """Length E of an expanded row."""
        return len(self.mean)

    def expand(self, rows: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return network inputs (M, E) of raw rows (M, F), which are float32 or float64."""
        kind = np.float32 if rows.dtype == np.float32 else np.float64
        out = np.empty((len(rows), self.size), np.float32)
        _expand(np.ascontiguousarray(rows, kind), self, out)
        return out


MAP: Final = compiled_type(FeatureMap)


@compiled(
    [
        types.void(types.Array(dtype, 1, "C", readonly=True), MAP, FLOATS, INPUTS)
        for dtype in (types.float32, types.float64)
    ],
    forceinline=True,
)
def expand_row(row: Any, feature_map: Any, base: Any, out: Any) -> None:
    """Fill out (E,) from row (F,), with scratch `base` (n,); logs of heavy tails keep the sign.

    Indices are unsigned: numba checks signed ones for negative values.
    """
    columns, heavy, products, mean, inverse = uncounted(feature_map)
    at = n = np.uint64(len(columns))
    for j in range(n):
        x = np.float64(row[columns[j]])
        base[j] = x
        out[j] = (x - mean[j]) * inverse[j]
        if heavy[j]:
            base[j] = np.log1p(x) if x >= 0.0 else -np.log1p(-x)
            out[at] = (base[j] - mean[at]) * inverse[at]
            at += _ONE
    for j in range(np.uint64(products)):
        for k in range(j, np.uint64(products)):
            out[at] = (base[j] * base[k] - mean[at]) * inverse[at]
            at += _ONE


@compiled(forceinline=True)
def expand_rules(
    rows: GivenRows, row: int, feature_map: FeatureMap, ruled: int, out: Singles, step: int
) -> None:
    """Fill out[::step] from the last `ruled` columns of a row of (M, F), which rules have filled.

    Their mean and inverse are the last ones, see `rules_last`.
    """
    _columns, _heavy, _products, mean, inverse = uncounted(feature_map)
    first, at = rows.shape[1] - ruled, len(mean) - ruled
    for j in range(ruled):
        out[j * step] = (rows[row, first + j] - mean[at + j]) * inverse[at + j]


@compiled([
    types.void(
        types.Array(dtype, 2, "C", readonly=True), MAP, types.Array(types.float32, 2, "C")
    )
    for dtype in (types.float32, types.float64)
])  # fmt: skip
def _expand(rows: Any, feature_map: Any, out: Any) -> None:
    """Fill out (M, E) from rows (M, F)."""
    base = np.empty(len(feature_map.columns))
    for i in range(len(rows)):
        expand_row(rows[i], feature_map, base, out[i])


def expanded_size(
    features: Sequence[Feature],
    columns: Sequence[int],
    quadratic: bool,
    logs: bool = True,
    apart: int = 0,
) -> int:
    """Return E, the number of inputs for these columns of a spec.

    If `quadratic`, squares and products of all columns but the last `apart` are inputs.
    """
    heavy = sum(logs and features[c].heavy_tailed for c in columns)
    products = (len(columns) - apart) * quadratic
    return len(columns) + heavy + products * (products + 1) // 2


def rules_last(feature_map: FeatureMap, ruled: int) -> tuple[FeatureMap, NDArray[np.int64]]:
    """Return the map whose last `ruled` inputs are the rule columns, and the order of its inputs.

    The order (E,) has the place of each input in the given map. The columns of the new map are
    those of the given one without the last `ruled`.
    """
    own, every = len(feature_map.columns) - ruled, np.arange(feature_map.size)
    order = np.concatenate([every[:own], every[own + ruled :], every[own : own + ruled]])
    moved = feature_map._replace(
        columns=feature_map.columns[:own], heavy=feature_map.heavy[:own],
        mean=feature_map.mean[order], inverse=feature_map.inverse[order],
    )  # fmt: skip
    return moved, order


def input_names(features: Sequence[Feature], feature_map: FeatureMap) -> list[str]:
    """Return the names of the inputs (E,) of a map over these features, in its order."""
    names = [features[c].name for c in feature_map.columns]
    heavy = [f"log1p({name})" for name in names]
    base = [b if h else a for a, b, h in zip(names, heavy, feature_map.heavy, strict=True)]
    found = names + [b for b, h in zip(heavy, feature_map.heavy, strict=True) if h]
    multiplied = base[: feature_map.products]
    return found + [
        f"{one} * {other}" for i, one in enumerate(multiplied) for other in multiplied[i:]
    ]


def columns_of(features: Sequence[Feature], names: Sequence[str]) -> list[int]:
    """Return the indices of features by name; raise DatasetError if one is missing."""
    known = [f.name for f in features]
    for name in names:
        if name not in known:
            raise DatasetError(f"this network needs the feature {name!r}, which is not in {known}")
    return [known.index(name) for name in names]


def unscaled_map(
    features: Sequence[Feature],
    columns: Sequence[int],
    quadratic: bool,
    logs: bool = True,
    apart: int = 0,
) -> FeatureMap:
    """Return the map with mean 0 and inverse 1; for `apart` see `expanded_size`."""
    size = expanded_size(features, columns, quadratic, logs, apart)
    return FeatureMap(
        columns=np.array(columns, np.int64),
        heavy=np.array([logs and features[c].heavy_tailed for c in columns], np.bool_),
        products=(len(columns) - apart) * quadratic,
        mean=np.zeros(size),
        inverse=np.ones(size),
    )


def fit_map(
    features: Sequence[Feature],
    columns: Sequence[int],
    quadratic: bool,
    rows: NDArray[np.floating] | None,
    logs: bool = True,
    apart: int = 0,
) -> FeatureMap:
    """Return the map with mean and deviation of raw training rows (M, F); unscaled without rows.

    For `apart` see `expanded_size`. Of more than 2^18 rows, evenly spaced ones are used.
    """
    plain = unscaled_map(features, columns, quadratic, logs, apart)
    if rows is None or len(rows) == 0 or plain.size == 0:
        return plain
    expanded = plain.expand(rows[:: -(-len(rows) // _FITTED_ROWS)]).astype(np.float64)
    mean, deviation = expanded.mean(axis=0), expanded.std(axis=0)
    varies = deviation > _CONSTANT * np.maximum(np.abs(mean), _CONSTANT)
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    return plain._replace(mean=mean, inverse=inverse)
