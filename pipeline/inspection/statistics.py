"""Statistics of the features of a dataset over its decisions."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset.columns import NO_CHOICE, SKIPPABLE
from hindcast.pipeline.dataset.folder import DatasetFolder
from hindcast.pipeline.simulation.spec import Feature

BINS: Final = 16  # of a histogram
_NUMBERS: Final = 40_000_000  # numbers that are held at once, about

_Floats = NDArray[np.float32]


@dataclass(frozen=True)
class FeatureStatistics:
    """Values of a feature; NaN is missing, and counts in `missing` alone.

    Attributes:
        feature: The feature.
        of: "decision" for a feature of the moment, else "candidate".
        kind: "identifier", "constant", "flag" for 0 and 1, "whole" for whole numbers, "number", or
            "missing" if no value is known.
        missing: Share of the values that are NaN.
        quartiles: Smallest value, quartiles with linear interpolation, and largest value; None
            where no value is known. The three in between are NaN if a value is infinite.
        mean: Mean of the values, None where none is known.
        means: Mean by split, in the order of `Statistics.splits`; None without a known value.
        counts: Values in BINS bins of equal width from the smallest to the largest value; empty
            for a constant and for infinite values.
    """

    feature: Feature
    of: str
    kind: str
    missing: float
    quartiles: tuple[float, ...] | None
    mean: float | None
    means: tuple[float | None, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Statistics:
    """Statistics of all features.

    Attributes:
        decisions: Decisions that were looked at: every `every`-th one of `total`.
        every: 1 unless the dataset holds more numbers than are held at once.
        total: Decisions of the dataset.
        candidates: Candidates of the decisions that were looked at.
        feasible: Share of these candidates that could be chosen.
        splits: Names of the splits, in the order of the table of episodes.
        features: Those of the moment, then those of the candidates.
    """

    decisions: int
    every: int
    total: int
    candidates: int
    feasible: float
    splits: tuple[str, ...]
    features: tuple[FeatureStatistics, ...]


@dataclass(frozen=True)
class _Rows:
    """Decisions that are kept; `number` counts those of the dataset from 0, `split` is a place."""

    number: NDArray[np.int64]  # (T,)
    split: NDArray[np.int64]  # (T,)
    count: NDArray[np.int64]  # (T,) candidates
    context: _Floats  # (T, C)
    candidates: _Floats  # (V, F)
    feasible: NDArray[np.bool_]  # (V,)

    def every(self, step: int) -> "_Rows":
        """Return the decisions whose number is a multiple of `step`."""
        kept = self.number % step == 0
        inside = np.repeat(kept, self.count)
        return _Rows(
            self.number[kept], self.split[kept], self.count[kept], self.context[kept],
            self.candidates[inside], self.feasible[inside],
        )  # fmt: skip

    @property
    def numbers(self) -> int:
        return self.context.size + self.candidates.size


def feature_statistics(dataset: DatasetFolder, numbers: int = _NUMBERS) -> Statistics:
    """Return the statistics of a dataset, read a row group at a time.

    Args:
        dataset: The dataset.
        numbers: About how many numbers may be held; of a larger dataset, every second, fourth, ...
            decision is looked at.
    """
    episodes = dataset.episodes()
    splits = tuple(episodes["split"].unique(maintain_order=True).to_list())
    kept: list[_Rows] = []
    every, total = 1, 0
    for rows in _decisions(dataset, splits):
        total += len(rows.number)
        kept.append(rows.every(every))
        while sum(one.numbers for one in kept) > numbers and every < total:
            every *= 2
            kept = [one.every(every) for one in kept]
    split, count, context, candidates, feasible = (
        np.concatenate([getattr(one, name) for one in kept])
        for name in ("split", "count", "context", "candidates", "feasible")
    )
    of_candidates = np.repeat(split, count)
    return Statistics(
        decisions=len(split),
        every=every,
        total=total,
        candidates=len(candidates),
        feasible=float(feasible.mean()) if len(feasible) else math.nan,
        splits=splits,
        features=(
            *(
                values_of(feature, "decision", values, split, len(splits))
                for feature, values in zip(dataset.spec.context, context.T, strict=True)
            ),
            *(
                values_of(feature, "candidate", values, of_candidates, len(splits))
                for feature, values in zip(dataset.spec.candidates, candidates.T, strict=True)
            ),
        ),
    )


def _decisions(dataset: DatasetFolder, splits: Sequence[str]) -> Iterator[_Rows]:
    """Yield the decisions of every row group, without closing rows; one at least."""
    episodes = dataset.episodes()
    place = dict(
        zip(episodes["episode"], map(splits.index, episodes["split"]), strict=True)
    )  # fmt: skip
    seen = 0
    for part in range(len(dataset.manifest.parts)):
        for block in dataset.blocks(part, SKIPPABLE):
            kept = block.choice != NO_CHOICE
            count = np.diff(block.offsets)
            inside = np.repeat(kept, count)
            number = seen + np.arange(int(kept.sum()))
            seen += len(number)
            yield _Rows(
                number, np.array([place[e] for e in block.episode[kept].tolist()], np.int64),
                count[kept], block.context[kept], block.candidates[inside], block.feasible[inside],
            )  # fmt: skip


def values_of(
    feature: Feature, of: str, values: _Floats, split: NDArray[np.int64], splits: int
) -> FeatureStatistics:
    """Return the statistics of the values of a feature, whose places of the split are `split`."""
    known = ~np.isnan(values)
    numbers = np.sort(values[known]).astype(np.float64)
    return FeatureStatistics(
        feature=feature,
        of=of,
        kind=_kind(feature, numbers),
        missing=1.0 - float(known.mean()) if len(values) else 0.0,
        quartiles=_quartiles(numbers),
        mean=_mean(numbers),
        means=tuple(_mean(values[known & (split == place)]) for place in range(splits)),
        counts=_counts(numbers),
    )


def _kind(feature: Feature, numbers: NDArray[np.float64]) -> str:
    if not len(numbers):
        return "missing"
    if feature.identifier:
        return "identifier"
    if numbers[0] == numbers[-1]:
        return "constant"
    if np.isin(numbers, (0.0, 1.0)).all():
        return "flag"
    return "whole" if (numbers == np.rint(numbers)).all() else "number"


def _mean(numbers: NDArray[Any]) -> float | None:
    with np.errstate(invalid="ignore"):  # the mean of inf and -inf is not known
        return float(numbers.mean(dtype=np.float64)) if len(numbers) else None


def _quartiles(numbers: NDArray[np.float64]) -> tuple[float, ...] | None:
    """Return the quartiles of sorted numbers."""
    if not len(numbers):
        return None
    if np.isinf(numbers[[0, -1]]).any():
        return (float(numbers[0]), math.nan, math.nan, math.nan, float(numbers[-1]))
    return tuple(np.quantile(numbers, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist())


def _counts(numbers: NDArray[np.float64]) -> tuple[int, ...]:
    if not len(numbers) or numbers[0] == numbers[-1] or np.isinf(numbers[[0, -1]]).any():
        return ()
    return tuple(np.histogram(numbers, BINS)[0].tolist())


def to_json(statistics: Statistics) -> dict[str, Any]:
    """Return statistics as JSON; what is not known, or not finite, is null."""

    def plain(numbers: Sequence[float | None]) -> list[float | None]:
        return [x if x is not None and math.isfinite(x) else None for x in numbers]

    return {
        "decisions": statistics.decisions,
        "every": statistics.every,
        "total": statistics.total,
        "candidates": statistics.candidates,
        "feasible": plain([statistics.feasible])[0],
        "splits": list(statistics.splits),
        "features": [
            {
                "name": one.feature.name,
                "unit": one.feature.unit,
                "text": one.feature.description,
                "of": one.of,
                "kind": one.kind,
                "missing": one.missing,
                "quartiles": plain(one.quartiles or [None] * 5),
                "mean": plain([one.mean])[0],
                "means": plain(one.means),
                "counts": list(one.counts),
            }
            for one in statistics.features
        ],
    }
