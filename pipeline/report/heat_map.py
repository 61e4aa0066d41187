"""Heat map of windows: how many have an offered load and a mean bounded slowdown, by policy."""

import itertools
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.report import svg
from hindcast.pipeline.report.plots import shortened
from hindcast.pipeline.report.schedule_figures import Figure
from hindcast.pipeline.report.schedule_plots import compact

_STEPS: Final = (0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0)  # of load
_MOST: Final = 8  # columns
OPAQUE: Final = 0.5  # of the cell with the most windows; text on it keeps its contrast
_FAINT: Final = 0.08

Array = NDArray[np.float64]


class HeatMap(NamedTuple):
    """Counts of windows.

    Attributes:
        loads: Edges of the columns, (X + 1,).
        slowdowns: Edges of the rows, (Y + 1,).
        counts: By policy, the windows in each cell, (Y, X). The last cell of a row or column holds
            its upper edge too.
        windows: Number of windows that are counted.
        left_out: Windows without a known load or slowdown.
    """

    loads: Array
    slowdowns: Array
    counts: Mapping[str, NDArray[np.int64]]
    windows: int
    left_out: int


def heat_map(load: Array, slowdowns: Mapping[str, Array]) -> HeatMap | None:
    """Return the counts of W windows; None if fewer than two can be counted.

    Args:
        load: Offered load of each window, (W,), NaN where unknown.
        slowdowns: Mean bounded slowdown of each window by policy, (W,).
    """
    known = np.isfinite(load) & np.all([np.isfinite(each) for each in slowdowns.values()], axis=0)
    if known.sum() < 2:
        return None
    values = {name: each[known] for name, each in slowdowns.items()}
    columns = _even(load[known])
    every = np.concatenate([*values.values()])
    rows = _by_1_2_5(float(every.min()), float(every.max()))
    counts = {
        name: np.histogram2d(np.maximum(each, rows[0]), load[known], (rows, columns))[0]
        for name, each in values.items()
    }
    counts = {name: of.astype(np.int64) for name, of in counts.items()}
    return HeatMap(columns, rows, counts, int(known.sum()), int((~known).sum()))


def _even(values: Array) -> Array:
    """Return round edges around all values."""
    low, high = float(values.min()), float(values.max())
    for step in itertools.chain(_STEPS, (10.0**k for k in itertools.count(1))):
        first, last = math.floor(low / step), math.floor(high / step) + 1
        if last - first <= _MOST:
            break
    edges = step * np.arange(first, last + 1)
    return np.asarray([min(edges[0], low), *edges[1:-1], max(edges[-1], high)])  # roundings


def _by_1_2_5(lowest: float, highest: float) -> Array:
    """Return the edges among 1, 2, 5, 10, ... from below the lowest to above the highest value."""
    edges = np.array([digit * 10.0**k for k in range(40) for digit in (1.0, 2.0, 5.0)])
    first = max(0, int(np.searchsorted(edges, lowest, side="right")) - 1)
    last = int(np.searchsorted(edges, highest, side="right"))
    return edges[first : max(last, first + 1) + 1]


def heat_map_figure(
    load: Array, slowdowns: Mapping[str, Array], name: str, what: str
) -> Figure | None:
    """Return the heat maps of all policies beside each other; None without a map.

    `load` and `slowdowns` are those of `heat_map`; `what` says what the windows are, in a sentence.
    """
    of = heat_map(load, slowdowns)
    if of is None:
        return None
    columns, rows = len(of.loads) - 1, len(of.slowdowns) - 1
    most = max(int(counts.max()) for counts in of.counts.values())
    with svg.settings():
        figure = svg.new_figure(10.4, 0.9 + 0.3 * rows)
        panels = figure.subplots(1, len(of.counts), sharey=True, squeeze=False)[0]
        for axes, (policy, counts) in zip(panels, of.counts.items(), strict=True):
            svg.style_axes(axes, grid="both")
            for (y, x), count in np.ndenumerate(counts):
                if count:
                    _cell(axes, x, y, int(count), most)
            axes.set_xlim(0, columns)
            axes.set_ylim(0, rows)
            axes.set_xticks(range(columns + 1), [f"{edge:.3g}" for edge in of.loads])
            axes.set_yticks(range(rows + 1), [f"{edge:,.10g}" for edge in of.slowdowns])
            axes.set_title(shortened(policy), loc="left", fontsize=8.5, color=svg.INK)
            axes.set_xlabel("offered load")
        panels[0].set_ylabel("mean bounded slowdown")
        cells = [f"{p} {_told(of, counts)}" for p, counts in of.counts.items()]
        text = f"Windows by offered load and mean bounded slowdown. {'; '.join(cells)}"
        plot = compact(svg.to_svg(figure, name, text))
    told = (
        f"A number counts windows, of {of.windows:,} in all; a cell without a number has none. "
        f"{what} The offered load is the processor time of a window's jobs, divided by what the "
        "machine offers from the first to the last arrival among them."
    )
    if of.left_out:
        told += f" Left out: {count_of(of.left_out, 'window')} whose load or slowdown is not known."
    return Figure(plot, "Offered load against mean bounded slowdown.", told)


def _cell(axes: Any, x: int, y: int, count: int, most: int) -> None:
    from matplotlib.patches import Rectangle

    alpha = _FAINT + (OPAQUE - _FAINT) * math.sqrt(count / most)
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=svg.LEARNED, alpha=alpha, linewidth=0))
    axes.text(x + 0.5, y + 0.5, f"{count:,}", ha="center", va="center_baseline", fontsize=8,
              color=svg.INK)  # fmt: skip


def _told(of: HeatMap, counts: NDArray[np.int64]) -> str:
    """Return the cells of a policy in words, for those who do not see the plot."""
    return ", ".join(
        f"load {of.loads[x]:.3g} to {of.loads[x + 1]:.3g} and slowdown {of.slowdowns[y]:,.10g} to "
        f"{of.slowdowns[y + 1]:,.10g}: {count}"
        for (y, x), count in np.ndenumerate(counts) if count
    )  # fmt: skip
