"""Plots of the page of `hindcast whatif`."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.pages.numbers import TimeUnit
from hindcast.pipeline.report import svg
from hindcast.pipeline.report.whatif.material import KNOWING, LEARNED, RECORDED, THE_LOG, Material
from hindcast.pipeline.report.whatif.numbers import HEADLINE, WAIT

_WIDE: Final = 10.4  # inches
_ROW: Final = 0.27
_COLORS: Final = {LEARNED: svg.LEARNED, KNOWING: svg.BOUND, RECORDED: svg.STRONGEST}


def policies_plot(material: Material, order: Sequence[str], unit: TimeUnit) -> str:
    """Plot slowdown and wait of every policy in the run, best first; a line is the record."""
    scope, recorded = material.run, material.cast.recorded
    with svg.settings():
        figure = svg.new_figure(_WIDE, 0.9 + _ROW * len(order))
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, metric, scale, label in (
            (left, HEADLINE, 1.0, "mean bounded slowdown, logarithmic"),
            (right, WAIT, unit.size_s, f"mean wait [{unit.name}], logarithmic"),
        ):
            svg.style_axes(axes)
            axes.set_xscale("log")
            for place, name in enumerate(order):
                mean = scope.means[name][metric]
                color = _COLORS.get(material.kinds[name], svg.SIMPLE)
                low, high = (max(end / scale, 1e-3) for end in (mean.low, mean.high))
                if np.isfinite(mean.low):
                    axes.plot([low, high], [place, place], color=color, linewidth=1.6)
                axes.plot([max(mean.value / scale, 1e-3)], [place], "o", color=color, markersize=5)
            if recorded is not None:
                record = max(scope.value(recorded, metric) / scale, 1e-3)
                axes.axvline(record, color=svg.STRONGEST, linewidth=1.0, linestyle=(0, (4, 2)))
            axes.set_xlabel(label)
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
            axes.xaxis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:e}"[0] in "25" else "")
            axes.tick_params(
                which="minor", colors=svg.MUTED, labelcolor=svg.MUTED, length=0, labelsize=8
            )
        left.set_yticks(range(len(order)), order)
        left.invert_yaxis()
        described = ", ".join(f"{n} {scope.means[n][HEADLINE].value:.4g}" for n in order)
        return svg.to_svg(figure, "whatif policies", f"Mean bounded slowdown: {described}")


def weeks_plot(material: Material, frames: Mapping[str, pl.DataFrame], unit: TimeUnit) -> str:
    """Plot the mean wait of the jobs of each week under some policies."""
    week, series = material.jobs["week"].to_numpy(), {}
    for name, frame in frames.items():
        wait = frame["wait_s"].fill_null(np.nan).to_numpy()
        known = np.isfinite(wait)
        sums = np.bincount(week[known], wait[known], minlength=int(week.max()) + 1)
        with np.errstate(invalid="ignore"):
            series[name] = sums / np.bincount(week[known], minlength=len(sums)) / unit.size_s
    with svg.settings():
        figure = svg.new_figure(_WIDE, 3.0)
        axes = figure.add_subplot()
        svg.style_axes(axes, grid="y")
        for number, (name, waits) in enumerate(series.items()):
            color = svg.STRONGEST if name == THE_LOG else svg.LINES[(0, 2, 3, 4)[number % 4]]
            style = "-" if name == THE_LOG else ("-", (0, (5, 2)), (0, (1, 1.5)))[number % 3]
            axes.plot(
                np.arange(1, len(waits) + 1),
                waits,
                color=color,
                linestyle=style,
                linewidth=1.6,
                label=name,
            )
        axes.margins(y=0.2)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("week of submission, from the beginning of the run")
        axes.set_ylabel(f"mean wait [{unit.name}]")
        axes.legend(frameon=False, fontsize=8, labelcolor=svg.INK, loc="upper right")
        return svg.to_svg(figure, "whatif weeks", f"Mean wait by week of {', '.join(series)}")
