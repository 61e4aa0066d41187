"""Plots of a report: functions of rows or arrays that return an inline SVG."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, Final, NamedTuple

import numpy as np

from hindcast.pipeline.evaluation.summary.pairing import Pairing
from hindcast.pipeline.pages.numbers import name_with_unit
from hindcast.pipeline.report import svg
from hindcast.pipeline.statistics.intervals import Array, Better, performance_profile

_HALF: Final = 5.6  # inches; a plot over half the page's width
_WIDE: Final = 10.4  # inches; a plot over the whole width
_ROW: Final = 0.27
_NAME: Final = 30  # characters of a policy's name that a plot shows
_DASHES: Final = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_MARKERS: Final = {
    "learned": "o", "heuristic": "s", "mixture": "D", "random": "^", "knows run times": "*",
    "recorded": "P",
}  # fmt: skip


def means_plot(
    rows: Sequence[Mapping[str, Any]], strongest: str | None, bound_name: str | None
) -> str:
    """Plot means with intervals, one row per policy; rows as in Summary.table, best first."""
    with svg.settings():
        figure, axes = _forest(rows, ("mean", "low", "high"), strongest)
        bound = rows[0]["bound"]
        text = f"{_axis(rows[0])}, mean"
        if bound is not None and bound_name is not None and _near(bound, rows):
            axes.axvline(bound, color=svg.BOUND, linewidth=1.2, linestyle=(0, (4, 2)))
            text += f"; dashed: {shortened(bound_name)}"
        axes.set_xlabel(text)
        described = ", ".join(f"{row['policy']} {row['mean']:.6g}" for row in rows)
        return svg.to_svg(figure, f"means {rows[0]['scenario']}", f"Means, best first: {described}")


def differences_plot(rows: Sequence[Mapping[str, Any]], reference: str) -> str:
    """Plot paired differences to a reference with intervals; the better side is tinted."""
    with svg.settings():
        columns = ("paired_difference", "paired_low", "paired_high")
        figure, axes = _forest(rows, columns, reference)
        ends = [n for row in rows for n in (row["paired_low"], row["paired_high"]) if n is not None]
        ends += [row["paired_difference"] for row in rows if row["paired_difference"] is not None]
        low, high = min([0.0, *ends]), max([0.0, *ends])
        room = 0.06 * ((high - low) or 1.0)
        axes.set_xlim(low - room, high + room)
        lower = rows[0]["better"] == "lower"
        edge = low - room if lower else high + room
        axes.axvspan(min(0.0, edge), max(0.0, edge), color=svg.GOOD, alpha=0.09, linewidth=0)
        axes.axvline(0.0, color=svg.MUTED, linewidth=1.0)
        side = "left" if lower else "right"
        axes.set_xlabel(f"{_axis(rows[0])}, policy - {shortened(reference)} ({side} is better)")
        described = ", ".join(
            f"{row['policy']} {row['paired_difference']:+.4g}"
            for row in rows
            if row["paired_difference"] is not None
        )
        name = f"differences {rows[0]['scenario']} {reference}"
        return svg.to_svg(figure, name, f"Mean differences to {reference}: {described}")


def windows_plot(row: Mapping[str, Any], scores: Pairing) -> str:
    """Plot the difference of two policies on every window, best windows first.

    `row` is that of one policy against the other, and `scores` are those of both.
    """
    policy, baseline, better = row["policy"], row["reference"], row["better"]
    wins, losses, axis = row["wins"], row["losses"], name_with_unit(row["metric"], row["unit"])
    difference = scores.by_name[policy].window_means - scores.by_name[baseline].window_means
    ordered = np.sort(difference) if better == "lower" else np.sort(difference)[::-1]
    edges = np.arange(ordered.size + 1)
    gain = ordered < 0 if better == "lower" else ordered > 0
    with svg.settings():
        figure = svg.new_figure(_WIDE, 3.0)
        axes = figure.add_subplot()
        svg.style_axes(axes, grid="y")
        for part, color in ((gain, svg.GOOD), (~gain, svg.BAD)):
            heights = np.where(part, ordered, 0.0)
            axes.stairs(heights, edges, fill=True, color=color, alpha=0.8, linewidth=0)
        axes.axhline(0.0, color=svg.MUTED, linewidth=0.8)
        middle = float(ordered.mean())
        axes.axhline(middle, color=svg.INK, linewidth=1.0, linestyle=(0, (4, 2)))
        axes.margins(x=0.01, y=0.12)
        axes.set_title(f"{wins} windows better", loc="left", fontsize=9, color=svg.GOOD)
        axes.set_title(f"{losses} windows worse", loc="right", fontsize=9, color=svg.BAD)
        axes.set_ylabel(axis)
        axes.set_xlabel(
            f"windows, sorted by {shortened(policy)} - {shortened(baseline)}; "
            "dashed: mean difference"
        )
        return svg.to_svg(
            figure,
            f"windows {policy} {baseline} {axis}",
            f"Difference of {policy} and {baseline} on {ordered.size} windows: {wins} better, "
            f"{losses} worse, mean {middle:+.4g}",
        )


class Profile(NamedTuple):
    """Ratios of policies in a performance profile, and the words that label them.

    Attributes:
        ratios: By policy, its ratios to the bound, or to the best: (runs, windows).
        better: Better direction of the metric.
        metric: Name of the metric.
        bound: Name of what the values are divided by.
        left: Number of policies that are not drawn.
    """

    ratios: Mapping[str, Array]
    better: Better
    metric: str
    bound: str
    left: int


def profile_plot(of: Profile) -> str:
    """Plot performance profiles, a line per policy."""
    ratios, better, axis = of.ratios, of.better, f"{of.metric} / {of.bound}"
    every = np.concatenate([table.ravel() for table in ratios.values()])
    if better == "lower":
        low, high = min(1.0, float(every.min())), float(np.quantile(every, 0.97))
    else:
        low, high = float(np.quantile(every, 0.03)), max(1.0, float(every.max()))
    low, high = (low, high) if high > low else (low - 0.5, low + 0.5)
    taus = np.linspace(low, high, 240)
    with svg.settings():
        figure = svg.new_figure(_WIDE, 3.4)
        axes = figure.add_subplot()
        svg.style_axes(axes, grid="both")
        for i, (name, table) in enumerate(ratios.items()):
            axes.plot(
                taus,
                100.0 * performance_profile(table, taus, better),
                color=svg.LINES[i % len(svg.LINES)],
                linestyle=_DASHES[i % len(_DASHES)],
                linewidth=1.6,
                label=shortened(name),
            )
        axes.set_xlim(low, high)
        axes.set_ylim(0, 102)
        if better == "higher":
            axes.invert_xaxis()
        axes.set_xlabel(axis)
        axes.set_ylabel("% of windows at least as good")
        _legend(axes, "lower right", len(ratios))
        return svg.to_svg(
            figure,
            f"profile {axis}",
            "Share of windows by ratio; policies: " + ", ".join(ratios),
        )


def curves_plot(curves: Mapping[str, Mapping[str, Any]], name: str) -> str:
    """Plot training curves: metric -> agent -> hindcast.pipeline.report.curves.Curve.

    Each metric has a panel and each agent a line, with a band if the agent has several seeds.
    """
    columns = 2 if len(curves) == 4 else min(3, len(curves))
    lines = -(-len(curves) // columns)
    colors = dict(zip(dict.fromkeys(r for runs in curves.values() for r in runs), cycle(svg.LINES)))
    with svg.settings():
        figure = svg.new_figure(_WIDE, 2.3 * lines + 0.3)
        for i, (metric, runs) in enumerate(curves.items(), start=1):
            axes = figure.add_subplot(lines, columns, i)
            svg.style_axes(axes, grid="y")
            for run, curve in runs.items():
                if curve.seeds > 1:
                    axes.fill_between(
                        curve.steps, curve.low, curve.high, color=colors[run], alpha=0.2,
                        linewidth=0,
                    )  # fmt: skip
                axes.plot(
                    curve.steps, curve.mean, color=colors[run], linewidth=1.2, label=shortened(run)
                )
            axes.set_ylim(*_limits(runs))
            axes.set_title(shortened(metric), fontsize=8.5, color=svg.INK, loc="left")
            if i == 1:
                _legend(axes, "best", len(runs))
            if i > len(curves) - columns:
                axes.set_xlabel("training step")
        return svg.to_svg(
            figure,
            f"curves {name}",
            f"Training curves of {', '.join(curves)} for {len(colors)} agents",
        )


def _limits(runs: Mapping[str, Any]) -> tuple[float, float]:
    """Return the range of a panel: all means, and the bands that do not go far beyond them.

    With two or three seeds, an interval can be many times wider than the range of the values.
    """
    means = np.concatenate([curve.mean for curve in runs.values()])
    low, high = float(means.min()), float(means.max())
    room = (high - low) or abs(high) or 1.0
    bands = [b for c in runs.values() if c.seeds > 1 for b in (c.low, c.high)]
    ends = np.concatenate([means, *bands])
    low, high = max(float(ends.min()), low - 0.5 * room), min(float(ends.max()), high + 0.5 * room)
    edge = 0.05 * ((high - low) or room)
    return low - edge, high + edge


def shortened(name: str) -> str:
    """Return a name as plots show it: the beginning of a long one."""
    name = " ".join(name.split())
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _forest(
    rows: Sequence[Mapping[str, Any]], columns: tuple[str, str, str], strongest: str | None
) -> tuple[Any, Any]:
    """Return figure and axes with a point and its interval for each row, the first on top.

    Shape and colour give the kind.
    """
    figure = svg.new_figure(_HALF, 0.8 + _ROW * len(rows))
    axes = figure.add_subplot()
    svg.style_axes(axes)
    for y, row in enumerate(rows):
        value, low, high = (row[column] for column in columns)
        color = svg.STRONGEST if row["policy"] == strongest else _color(row["kind"])
        if value is None:  # the reference itself
            value = 0.0
        if low is not None and high is not None:
            axes.plot([low, high], [y, y], color=color, linewidth=2.2, alpha=0.55)
        axes.plot(
            [value],
            [y],
            marker=_MARKERS[row["kind"]],
            color=color,
            markersize=5.5,
            markeredgecolor=svg.PAPER,
            markeredgewidth=0.8,
        )
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [shortened(row["policy"]) for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(svg.LEARNED if row["kind"] == "learned" else svg.INK)
        if row["policy"] == strongest:
            label.set_color(svg.STRONGEST)
    return figure, axes


def _color(kind: str) -> str:
    return {"learned": svg.LEARNED, "random": svg.RANDOM}.get(kind, svg.SIMPLE)


def _near(bound: float, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the bound can be drawn without squeezing everything else into a corner."""
    ends = [row[name] for row in rows for name in ("mean", "low", "high") if row[name] is not None]
    span = max(ends) - min(ends)
    return bool(min(ends) - 2 * span <= bound <= max(ends) + 2 * span)


def _axis(row: Mapping[str, Any]) -> str:
    return name_with_unit(shortened(row["metric"]), row["unit"])


def _legend(axes: Any, place: str, entries: int) -> None:
    if entries > 1:
        legend = axes.legend(
            loc=place, fontsize=8, frameon=True, labelcolor=svg.INK, framealpha=0.85
        )
        legend.get_frame().set(facecolor=svg.PAPER, edgecolor=svg.GRID)
