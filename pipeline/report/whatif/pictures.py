"""Pictures of the page of `hindcast whatif` that show schedules, windows and groups of jobs."""

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.pages.numbers import TimeUnit
from hindcast.pipeline.report import svg
from hindcast.pipeline.report.heat_map import heat_map_figure
from hindcast.pipeline.report.plots import shortened
from hindcast.pipeline.report.schedule_figures import Figure, figures_of
from hindcast.pipeline.report.schedule_plots import compact
from hindcast.pipeline.report.whatif.material import Material
from hindcast.pipeline.report.whatif.numbers import HEADLINE

_MARKERS: Final = ("s", "o", "^", "D", "v", "P")
_COLORS: Final = (svg.STRONGEST, *svg.LINES[:1], *svg.LINES[2:])
_COLUMNS: Final = 2


def schedule_figures(material: Material) -> Iterator[Figure]:
    """Yield strips and the worst week of the run under the policies that are compared."""
    if material.schedules:
        yield from figures_of(list(material.schedules.values()), "the run")


def loads_figure(material: Material) -> Figure | None:
    """Return the windows by offered load and slowdown, under the policies that are compared."""
    if material.windows is None:
        return None
    values = {
        name: material.windows.values[name][HEADLINE]
        for name in material.drawn if name in material.windows.values
    }  # fmt: skip
    loads = loads_of(material)
    if not values or any(len(each) != len(loads) for each in values.values()):
        return None
    what = (
        "A window is a stretch of the test part, see the table above. A job arrives at its "
        "submission."
    )
    return heat_map_figure(loads, values, "whatif loads", what)


def loads_of(material: Material) -> NDArray[np.float64]:
    """Return the offered load of each window, (W,); NaN where the run does not count all its jobs.

    The windows are stretches of the jobs of the run.
    """
    plan, jobs = material.plan, material.jobs.sort("job")
    number = jobs["job"].to_numpy()
    work, submit = jobs["work"].to_numpy(), jobs["submit_s"].to_numpy()
    found = np.full(len(plan.test), np.nan)
    for window, first in enumerate(plan.test):
        low, high = np.searchsorted(number, (first, first + plan.jobs))
        span = float(np.ptp(submit[low:high])) if high > low else 0.0
        if high - low == plan.jobs and span > 0:
            found[window] = work[low:high].sum() / (material.processors * span)
    return found


def groups_figure(table: pl.DataFrame, titles: Any, unit: TimeUnit) -> Figure | None:
    """Return the mean waits of groups of jobs as points, a panel for each kind of group.

    `titles` are those of the kinds. None if nobody waits.
    """
    known = table.filter(pl.col("mean_wait_s") > 0)
    if known.is_empty():
        return None
    kinds = {str(kind): rows for (kind,), rows in table.group_by("kind", maintain_order=True)}
    policies = list(dict.fromkeys(table["policy"]))
    low = float(known["mean_wait_s"].to_numpy().min()) / unit.size_s
    sizes = [rows["group"].n_unique() for rows in kinds.values()]
    lines = [max(sizes[at : at + _COLUMNS]) for at in range(0, len(sizes), _COLUMNS)]
    with svg.settings():
        figure = svg.new_figure(10.4, 0.7 + 0.22 * sum(lines) + 0.45 * len(lines))
        places = figure.subplots(
            len(lines), _COLUMNS, sharex=True, squeeze=False, height_ratios=[n + 1 for n in lines]
        ).ravel()
        for axes in places[len(kinds) :]:
            axes.remove()
        for axes, (kind, rows) in zip(places, kinds.items(), strict=False):
            _panel(axes, rows, policies, unit)
            axes.set_title(titles[kind], loc="left", fontsize=8.5, color=svg.INK)
        places[0].set_xlim(left=low / 1.5)  # of all panels, and of no point that is drawn later
        for axes in places[max(0, len(kinds) - _COLUMNS) : len(kinds)]:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel(f"mean wait [{unit.name}], logarithmic")
        handles, labels = places[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=min(len(policies), 6),
                      frameon=False, fontsize=8, labelcolor=svg.INK)  # fmt: skip
        described = ", ".join(titles[kind].lower() for kind in kinds)
        text = f"Mean waits of groups of jobs under {', '.join(policies)}: {described}"
        plot = compact(svg.to_svg(figure, "whatif groups", text))
    return Figure(
        plot, "Mean waits by group.",
        "A panel is a kind of group, a line is a group, a point is the mean wait of its jobs under "
        "a policy, without an interval. Means that are 0 or not known are not drawn. The "
        "tables below have the numbers and how many jobs a group has.",
    )  # fmt: skip


def _panel(axes: Any, rows: pl.DataFrame, policies: list[str], unit: TimeUnit) -> None:
    svg.style_axes(axes)
    axes.set_xscale("log")
    groups = list(dict.fromkeys(rows["group"]))
    for place, policy in enumerate(policies):
        waits = dict(rows.filter(policy=policy).select("group", "mean_wait_s").iter_rows())
        drawn = [
            (waits[group] / unit.size_s, at) for at, group in enumerate(groups)
            if waits.get(group) is not None and waits[group] > 0
        ]  # fmt: skip
        axes.plot(
            [x for x, _ in drawn], [y for _, y in drawn], _MARKERS[place % len(_MARKERS)],
            color=_COLORS[place % len(_COLORS)], markersize=4.5, label=shortened(policy),
            markeredgecolor=svg.PAPER, markeredgewidth=0.5,
        )  # fmt: skip
    axes.tick_params(which="minor", length=0)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.set_yticks(range(len(groups)), [shortened(_plain(group)) for group in groups])
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")


def _plain(text: str) -> str:
    """Return a name without characters that are no text, which XML does not have."""
    return re.sub(r"[\x00-\x1f\x7f]", " ", text)
