"""Returns of the behaviours: means with intervals over windows, and a histogram."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.pages.numbers import decimals_for, write_number
from hindcast.pipeline.simulation.scenario import Scenario
from hindcast.pipeline.simulation.spec import Outcome
from hindcast.pipeline.statistics.intervals import Interval, mean_interval

_MOST_SHARING: Final = 4000  # windows that share jobs: their interval needs a number for each pair
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


def behaviour_returns(
    episodes: pl.DataFrame, headline: Outcome, scenario: Scenario, config: Any
) -> list[BehaviourReturns]:
    """Return the results of every behaviour, in the order of the dataset.

    A mean is taken over windows, of the mean inside a window. Intervals are Student's; they are NaN
    for one window, where a value is unknown, and for more than 4000 windows that share jobs.
    """
    names = episodes["behaviour"].unique(maintain_order=True).to_list()
    needed = dict.fromkeys(("behaviour", "window", "steps", "return", headline.name))
    own = episodes.select(*needed)
    if len(names) == 1:
        return [_of(names[0], own, headline.name, scenario, config)]
    return [
        _of(name, own.filter(pl.col("behaviour") == name), headline.name, scenario, config)
        for name in names
    ]


def _of(
    name: str, own: pl.DataFrame, headline: str, scenario: Scenario, config: Any
) -> BehaviourReturns:
    """Return the results of one behaviour; `own` are its episodes, `headline` is an outcome."""
    means = own
    if not (np.diff(own["window"].to_numpy()) > 0).all():
        means = (
            own.group_by("window", maintain_order=True)
            .agg(pl.col("return").mean(), pl.col(headline).mean())
            .sort("window")
        )
    stretches = scenario.shared_stretches(config, means["window"].to_list())
    known = stretches is None or means.height <= _MOST_SHARING
    returns, outcome = (
        mean_interval(values, stretches=stretches) if known and np.isfinite(values).all()
        else Interval(float(values.mean()), np.nan, np.nan)
        for values in (means[column].to_numpy() for column in ("return", headline))
    )  # fmt: skip
    return BehaviourReturns(name, own.height, int(own["steps"].sum()), returns, outcome)


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
