"""Plots of the page of `hindcast whatif`."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.report import svg
from hindcast.pipeline.report.whatif.numbers import HEADLINE, WAIT, Cast, Scope
from hindcast.pipeline.report.whatif.words import WaitUnit

_WIDE: Final = 10.4  # inches
_ROW: Final = 0.27
_COLORS: Final = {"learned": svg.LEARNED, "knows run times": svg.BOUND, "heuristic": svg.SIMPLE}


def policies_plot(scope: Scope, cast: Cast, order: Sequence[str], unit: WaitUnit) -> str:
    """Plot slowdown and wait of every policy with intervals, best first; a line is the record."""
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
                color = svg.STRONGEST if name == cast.recorded else _COLORS[cast.kinds[name]]
                low, high = (max(end / scale, 1e-3) for end in (mean.low, mean.high))
                if np.isfinite(mean.low):
                    axes.plot([low, high], [place, place], color=color, linewidth=1.6)
                axes.plot([max(mean.value / scale, 1e-3)], [place], "o", color=color, markersize=5)
            if cast.recorded is not None:
                record = max(scope.means[cast.recorded][metric].value / scale, 1e-3)
                axes.axvline(record, color=svg.STRONGEST, linewidth=1.0, linestyle=(0, (4, 2)))
            axes.set_xlabel(label)
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
            axes.xaxis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:e}"[0] in "25" else "")
            axes.tick_params(which="minor", colors=svg.MUTED, labelcolor=svg.MUTED, length=0,
                             labelsize=8)  # fmt: skip
        left.set_yticks(range(len(order)), order)
        left.invert_yaxis()
        described = ", ".join(f"{n} {scope.means[n][HEADLINE].value:.4g}" for n in order)
        return svg.to_svg(figure, "whatif policies", f"Mean bounded slowdown: {described}")


def weeks_plot(
    series: Mapping[str, NDArray[np.float64]], recorded: str | None, unit: WaitUnit
) -> str:
    """Plot the mean wait in a unit of the jobs of each week, (W,), NaN for a week without jobs."""
    with svg.settings():
        figure = svg.new_figure(_WIDE, 3.0)
        axes = figure.add_subplot()
        svg.style_axes(axes, grid="y")
        for number, (name, waits) in enumerate(series.items()):
            color = svg.STRONGEST if name == recorded else svg.LINES[(0, 2, 3, 4)[number % 4]]
            style = "-" if name == recorded else ("-", (0, (5, 2)), (0, (1, 1.5)))[number % 3]
            axes.plot(np.arange(1, len(waits) + 1), waits, color=color, linestyle=style,
                      linewidth=1.6, label=name)  # fmt: skip
        axes.set_ylim(bottom=0)
        axes.set_xlabel("week of submission, from the beginning of the run")
        axes.set_ylabel(f"mean wait [{unit.name}]")
        axes.legend(frameon=False, fontsize=8, labelcolor=svg.INK, loc="upper right")
        return svg.to_svg(figure, "whatif weeks", f"Mean wait by week of {', '.join(series)}")
