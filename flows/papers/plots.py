"""Pictures of figures: one SVG for every panel, drawn from rows of FIGURE."""

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.papers.results import FigureText
from hindcast.flows.papers.styles import Style, styles
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.report import svg

_WIDTH: Final = 5.4  # inches; panels stand side by side where there is room
_HEIGHT: Final = 3.3
_ENTRY: Final = 0.17  # inches of a row of the legend
_BARS: Final = 0.8  # width of a group of bars
_MANY: Final = 100  # points of a series that hide each other unless they are small
_CATEGORIES: Final = 7  # names of bars that fit side by side


def file_name(figure: str, panel: str) -> str:
    """Return the name of the SVG of a panel."""
    words = f"{figure} {panel}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-") + ".svg"


def panels(figures: pl.DataFrame, texts: Mapping[str, FigureText]) -> dict[tuple[str, str], str]:
    """Return the SVG of every (figure, panel), in order.

    Raises DatasetError for a figure without rows, and for an x that is no number where one is
    needed.
    """
    drawn = {}
    for name, text in texts.items():
        rows = figures.filter(figure=name)
        if rows.is_empty():
            raise DatasetError(f"figure {name!r} has a text, but no points")
        for panel in rows["panel"].unique(maintain_order=True):
            drawn[name, panel] = draw(rows.filter(panel=panel), text, name, panel)
    return drawn


def draw(rows: pl.DataFrame, text: FigureText, name: str, panel: str) -> str:
    """Return one panel as an inline SVG; `rows` are those of FIGURE for it."""
    series = rows["series"].unique(maintain_order=True).to_list()
    looks = styles(series)
    parts = {each: rows.filter(series=each) for each in series}
    legend = len(series) > 1
    height = _HEIGHT + _ENTRY * -(-len(series) // 2) * legend
    with svg.settings():
        figure = svg.new_figure(_WIDTH, height)
        axes = figure.add_subplot()
        svg.style_axes(axes, grid="y")
        _KINDS[text.kind](axes, parts, looks)
        if text.kind != "bars":
            axes.locator_params(axis="x", integer=_whole(rows["x"]))
        if text.log:
            axes.set_yscale("log")
            _label_plainly(axes.yaxis)
        axes.set_xlabel(text.x_label)
        axes.set_ylabel(text.y_label)
        if panel:
            axes.set_title(panel, fontsize=9, color=svg.INK, loc="left")
        if legend:
            figure.legend(
                loc="outside lower center", ncols=2, frameon=False, fontsize=8,
                labelcolor=svg.INK,
            )  # fmt: skip
        described = f"{text.title}{', ' + panel if panel else ''}: {', '.join(series)}"
        return svg.to_svg(figure, f"{name} {panel}", described)


def _label_plainly(axis: Any) -> None:
    """Label a logarithmic axis with 1, 2, 5, 10 ...: text in SVG has no powers."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _whole(x: pl.Series) -> bool:
    """Return whether all x are whole numbers, such as those of windows."""
    return all(re.fullmatch(r"-?[0-9]+", each) for each in x)


def _numbers(part: pl.DataFrame) -> Any:
    """Return x of a series as numbers."""
    try:
        return part["x"].cast(pl.Float64).to_numpy()
    except pl.exceptions.InvalidOperationError as error:
        name, x = part["figure"][0], part["x"].to_list()[:3]
        raise DatasetError(
            f"figure {name!r}: x of series {part['series'][0]!r} is {x}, expected numbers"
        ) from error


def _line(axes: Any, x: Any, y: Any, look: Style, name: str) -> None:
    few = len(x) <= 24  # a marker at each point is readable
    axes.plot(
        x, y, color=look.color, label=name, linewidth=1.4,
        linestyle="none" if look.hollow else look.dash,
        marker=look.marker if few or look.hollow else "",
        markersize=5 if look.hollow else 3.5,
        markerfacecolor="none" if look.hollow else look.color,
    )  # fmt: skip


def _lines(axes: Any, parts: Mapping[str, pl.DataFrame], looks: Mapping[str, Style]) -> None:
    for name, part in parts.items():
        x = _numbers(part)
        order = np.argsort(x, kind="stable")
        y, low, high = (part[column].to_numpy()[order] for column in ("y", "low", "high"))
        _line(axes, x[order], y, looks[name], name)
        if not np.isnan(low).all():
            axes.fill_between(x[order], low, high, color=looks[name].color, alpha=0.15, linewidth=0)


def _sorted(axes: Any, parts: Mapping[str, pl.DataFrame], looks: Mapping[str, Style]) -> None:
    for name, part in parts.items():
        y = np.sort(part["y"].to_numpy())
        _line(axes, np.arange(1, len(y) + 1), y, looks[name], name)


def _scatter(axes: Any, parts: Mapping[str, pl.DataFrame], looks: Mapping[str, Style]) -> None:
    for name, part in parts.items():
        axes.scatter(
            _numbers(part), part["y"].to_numpy(), s=9 if len(part) > _MANY else 22,
            color=looks[name].color, alpha=0.5 if len(part) > _MANY else 0.8,
            linewidths=0, marker=looks[name].marker, label=name,
        )  # fmt: skip


def _histogram(axes: Any, parts: Mapping[str, pl.DataFrame], looks: Mapping[str, Style]) -> None:
    for name, part in parts.items():
        x, y = _numbers(part), part["y"].to_numpy()
        last = x[-1] + (x[-1] - x[-2] if len(x) > 1 else 1.0)
        edges = np.append(x, last)
        axes.stairs(y, edges, color=looks[name].color, linewidth=1.4, label=name)
        axes.stairs(y, edges, color=looks[name].color, alpha=0.15, fill=True)


def _bars(axes: Any, parts: Mapping[str, pl.DataFrame], looks: Mapping[str, Style]) -> None:
    names = list(dict.fromkeys(x for part in parts.values() for x in part["x"]))
    width = _BARS / len(parts)
    for number, (name, part) in enumerate(parts.items()):
        look = looks[name]
        empty = look.hollow or look.hatch != ""
        at = np.array([names.index(x) for x in part["x"]]) - _BARS / 2 + (number + 0.5) * width
        y, low, high = (part[column].to_numpy() for column in ("y", "low", "high"))
        axes.bar(
            at, y, width * 0.9, label=name, edgecolor=look.color, linewidth=1.0, hatch=look.hatch,
            color="none" if empty else look.color, alpha=1.0 if empty else 0.8,
        )  # fmt: skip
        if not np.isnan(low).all():
            axes.errorbar(
                at, y, yerr=[y - low, high - y], fmt="none", ecolor=svg.INK, elinewidth=0.9,
            )  # fmt: skip
    axes.set_xticks(range(len(names)), names)
    if len(names) > _CATEGORIES or max(map(len, names)) * len(names) > 60:
        axes.tick_params(axis="x", rotation=40)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")


_KINDS: Final = {
    "lines": _lines, "sorted": _sorted, "scatter": _scatter, "histogram": _histogram, "bars": _bars,
}  # fmt: skip
