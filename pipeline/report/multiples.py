"""Small multiples of a report: how windows differ from the strongest policy, a panel a policy."""

from typing import Any, Final

import numpy as np

from hindcast.pipeline.evaluation.summary.summarise import SettingSummary
from hindcast.pipeline.pages.numbers import name_with_unit
from hindcast.pipeline.report import svg
from hindcast.pipeline.report.plots import shortened
from hindcast.pipeline.report.schedule_figures import Figure
from hindcast.pipeline.report.schedule_plots import compact
from hindcast.pipeline.statistics.intervals import Array, tie_tolerance

_PANELS: Final = 8
_COLUMNS: Final = 4
_FEWEST: Final = 3  # policies or windows, below which a table says it better
_BARS: Final = 60  # of a panel


def small_multiples(summary: SettingSummary) -> Figure | None:
    """Return the paired differences of policies to the strongest, window by window.

    Policies come best first. None without a strongest policy or a better direction, or with less
    than three other policies or windows.
    """
    headline, strongest = summary.setting.headline, summary.strongest
    better = headline.metric.better
    if strongest is None or better == "neither":
        return None
    reference = headline.by_name[strongest]
    others = [policy for policy in headline.ranked if policy is not reference]
    if min(len(others), len(headline.windows)) < _FEWEST:
        return None
    panels = {
        policy.name: (
            np.sort(policy.window_means - reference.window_means),
            tie_tolerance(policy.values, reference.values),
        )
        for policy in others[:_PANELS]
    }  # fmt: skip
    axis = name_with_unit(headline.metric.name, headline.metric.unit)
    sentences = [f"A panel is a policy, a bar is {_bar(len(headline.windows))}."]
    sentences.append(
        f"Windows are sorted by {axis} of the policy less that of {strongest} on the same window; "
        f"{'below' if better == 'lower' else 'above'} 0, the policy is better there. All panels "
        "have one axis, which is logarithmic away from 0."
    )
    if len(others) > _PANELS:
        sentences.append(f"The {_PANELS} best of {len(others)} policies by mean are drawn.")
    sentences.append("The table below names windows.")
    plot = _plot(panels, better == "lower", axis, f"multiples {summary.setting.label}")
    return Figure(plot, f"Differences to {strongest}, window by window.", " ".join(sentences))


def _bar(windows: int) -> str:
    return "a window" if windows <= _BARS else f"one of {_BARS} quantiles of {windows:,} windows"


def _plot(panels: dict[str, tuple[Array, float]], lower: bool, axis: str, name: str) -> str:
    lines = -(-len(panels) // _COLUMNS)
    every = np.concatenate([values for values, _ in panels.values()])
    linear = float(np.quantile(np.abs(every), 0.5)) or float(np.abs(every).max()) or 1.0
    powers = 10.0 ** np.arange(-9, 13)
    high = [p for p in powers if 2 * linear <= p <= every.max()][::-2][:2]
    low = [-p for p in powers if 2 * linear <= p <= -every.min()][::-2][:2]
    ticks = sorted([*low, 0.0, *high])
    with svg.settings():
        figure = svg.new_figure(10.4, 0.5 + 1.3 * lines)
        places = figure.subplots(lines, _COLUMNS, sharey=True, squeeze=False).ravel()
        for axes in places[len(panels) :]:
            axes.remove()
        for axes, (policy, (values, tie)) in zip(places, panels.items(), strict=False):
            svg.style_axes(axes, grid="y")
            axes.set_yscale("symlog", linthresh=linear)
            _bars(axes, values, tie, lower)
            axes.set_title(shortened(policy), loc="left", fontsize=8.5, color=svg.INK)
            axes.set_xticks([])
        for axes in places[: len(panels) : _COLUMNS]:
            axes.set_yticks(ticks, [f"{tick:,.4g}" for tick in ticks], minor=False)
        figure.supylabel(f"{axis}, difference", fontsize=8.5, color=svg.MUTED)
        counts = [
            f"{policy} {int((values < -tie).sum())} lower and {int((values > tie).sum())} higher"
            for policy, (values, tie) in panels.items()
        ]
        text = f"Differences of {axis} by window. Windows: {'; '.join(counts)}"
        return compact(svg.to_svg(figure, name, text))


def _bars(axes: Any, values: Array, tie: float, lower: bool) -> None:
    shown = (
        values if len(values) <= _BARS else np.quantile(values, (np.arange(_BARS) + 0.5) / _BARS)
    )
    edges = np.arange(len(shown) + 1)
    below, above = (svg.GOOD, svg.BAD) if lower else (svg.BAD, svg.GOOD)
    for part, color in ((shown < -tie, below), (shown > tie, above)):
        if part.any():
            axes.stairs(np.where(part, shown, 0.0), edges, fill=True, color=color, linewidth=0)
    axes.axhline(0.0, color=svg.MUTED, linewidth=0.8)
    axes.margins(x=0.01)
