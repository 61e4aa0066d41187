"""Returns of the behaviours: means with intervals over windows, and a histogram."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.pages.numbers import decimals_for, write_number
from hindcast.pipeline.simulation.spec import Outcome
from hindcast.pipeline.statistics.intervals import Interval
from hindcast.pipeline.statistics.percentile import percentile_intervals

RESAMPLES: Final = 2000
_MANY: Final = 20_000  # windows
_NORMAL: Final = 1.959964  # 97.5 % quantile
_BINS: Final = 12
_BAR: Final = 40  # characters of the longest bar


@dataclass(frozen=True)
class BehaviourReturns:
    """Results of one behaviour.

    Attributes:
        behaviour: Its name.
        episodes: Number of its episodes.
        decisions: Number of its decisions.
        returns: Mean return over windows, with its 95 % interval.
        headline: Mean headline outcome over windows, with its 95 % interval.
    """

    behaviour: str
    episodes: int
    decisions: int
    returns: Interval
    headline: Interval


def behaviour_returns(episodes: pl.DataFrame, headline: Outcome) -> list[BehaviourReturns]:
    """Return the results of every behaviour, in the order of the dataset.

    A mean is taken over windows, of the mean inside a window. Windows are resampled by the
    same draws for every behaviour. Intervals are NaN if there is one window.
    """
    names = episodes["behaviour"].unique(maintain_order=True).to_list()
    needed = dict.fromkeys(("behaviour", "window", "steps", "return", headline.name))
    own = episodes.select(*needed)
    if len(names) == 1:
        return [_of(names[0], own, headline.name)]
    return [_of(name, own.filter(pl.col("behaviour") == name), headline.name) for name in names]


def _of(name: str, own: pl.DataFrame, headline: str) -> BehaviourReturns:
    means = own
    if not (np.diff(own["window"].to_numpy()) > 0).all():
        means = (
            own.group_by("window", maintain_order=True)
            .agg(pl.col("return").mean(), pl.col(headline).mean())
            .sort("window")
        )
    samples = [means[column].to_numpy() for column in ("return", headline)]
    if means.height > _MANY:
        returns, outcome = map(_normal, samples)
    else:
        returns, outcome = percentile_intervals(samples, resamples=RESAMPLES)
    return BehaviourReturns(name, own.height, int(own["steps"].sum()), returns, outcome)


def _normal(values: NDArray[np.float64]) -> Interval:
    """Return the normal interval of a mean, used where the bootstrap gives the same."""
    half = _NORMAL * float(values.std(ddof=1)) / len(values) ** 0.5
    middle = float(values.mean())
    return Interval(middle, middle - half, middle + half)


def histogram(returns: pl.Series) -> list[str]:
    """Return the returns of all episodes as bars of text, in a fenced block."""
    values = returns.drop_nulls().drop_nans().to_numpy()
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return ["No episode has a return."]
    low, high = float(values.min()), float(values.max())
    if low == high:
        return [f"All {len(values):,} episodes have the return {low:g}."]
    counts, edges = np.histogram(values, bins=_BINS)
    decimals = decimals_for(edges.tolist())
    ends = [write_number(edge, decimals) for edge in edges.tolist()]
    width = max(map(len, ends))
    lines = ["```text"]
    for count, begin, end in zip(counts.tolist(), ends[:-1], ends[1:], strict=True):
        bar = "#" * -(-count * _BAR // int(counts.max()))
        lines.append(f"{begin:>{width}} .. {end:>{width}}  {count:>9,}  {bar}".rstrip())
    return [*lines, "```"]
