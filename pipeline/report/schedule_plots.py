"""Pictures of schedules for pages that are printed: a week as rectangles, and strips over time."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.report import svg
from hindcast.pipeline.report.plots import shortened
from hindcast.pipeline.report.view.packing import Rectangles
from hindcast.pipeline.report.view.strips import AREA, Stretch, area_unit, strips_of
from hindcast.pipeline.schedules.schedule import Schedule

_WIDE: Final = 10.4  # inches
POINTS: Final = 210  # of a strip
_MOST: Final = 700  # rectangles of a schedule: some 30 kB
_FINE: Final = 2.0  # points below which a rectangle has no edge, which would hide it
_LINES: Final = ((svg.LINES[0], "-"), (svg.LINES[1], (0, (5, 2))))
_MACHINES: Final = 40  # up to which lines stand between machines
_STEPS_S: Final = (
    1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800,
    345_600, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000,
)  # fmt: skip
_NEEDS_YEAR_S: Final = 300 * 86_400  # length from which a date without a year is unclear
_UNITS: Final = ((86_400, "day", "days"), (3600, "h", "h"), (60, "min", "min"), (1, "s", "s"))

Floats = NDArray[np.float64]


class Boxes(NamedTuple):
    """Rectangles of a schedule between two moments, and the jobs that have none.

    Attributes:
        job: Row of the job of each rectangle, (R,).
        left: Its beginning, not before the drawing's, (R,).
        right: Its end, not after the drawing's, (R,).
        low: Lowest row, (R,).
        high: First row above it, (R,).
        hidden: Jobs that are not drawn since they are the smallest ones, or in very many pieces.
        hidden_share: Their share of the processor time of this part.
        too_many: Jobs that are not drawn since more is held than there is.
    """

    job: NDArray[np.int64]
    left: Floats
    right: Floats
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    hidden: int
    hidden_share: float
    too_many: int


def boxes_of(
    schedule: Schedule, drawn: Rectangles, begin: float, end: float, most: int = _MOST
) -> Boxes:
    """Return at most `most` of the rectangles `drawn` of a schedule, those of the largest jobs.

    A job is drawn whole or not at all.
    """
    start, stop = (schedule.jobs[name].to_numpy() for name in ("start_s", "end_s"))
    inside = (start[drawn.job] < end) & (stop[drawn.job] > begin)
    job, low, height = (each[inside] for each in drawn[:3])
    left, right = np.maximum(start[job], begin), np.minimum(stop[job], end)
    size = (right - left) * height
    of_job = np.bincount(job, size, minlength=schedule.jobs.height)
    parts = np.bincount(job, minlength=schedule.jobs.height)
    order = np.argsort(-of_job, kind="stable")
    if parts.sum() > most:  # one job in very many pieces would leave no room for any other
        order = order[parts[order] <= most // 4]
    kept = np.zeros(len(of_job), dtype=np.bool_)
    kept[order] = (np.cumsum(parts[order]) <= most) & (parts[order] > 0)
    hidden = (parts > 0) & ~kept
    whole, keep = float(of_job.sum()), kept[job]
    late = drawn.left_out
    return Boxes(
        job[keep], left[keep], right[keep], low[keep], (low + height)[keep],
        int(hidden.sum()), float(of_job[hidden].sum()) / whole if whole else 0.0,
        int(((start[late] < end) & (stop[late] > begin)).sum()),
    )  # fmt: skip


def steps_of_wait(waits: Floats) -> tuple[float, float]:
    """Return the two waits between which colours change: round ones, by the longest wait."""
    longest = float(np.nanmax(waits, initial=0.0))
    upper = max((step for step in _STEPS_S if step <= longest / 2), default=_STEPS_S[1])
    return max((s for s in _STEPS_S if s <= upper / 8), default=_STEPS_S[0]), upper


def gantt_plot(
    schedules: Sequence[Schedule], boxes: Sequence[Boxes], stretch: Stretch, name: str
) -> str:
    """Plot a part of one or two schedules of the same jobs as rectangles, coloured by wait."""
    all_waits = [
        schedule.jobs["wait_s"].fill_null(np.nan).to_numpy()[of.job]
        for schedule, of in zip(schedules, boxes, strict=True)
    ]
    lower, upper = steps_of_wait(np.concatenate([*all_waits, np.zeros(1)]))
    facts = schedules[0].facts
    with svg.settings():
        figure = svg.new_figure(_WIDE, 0.7 + 2.1 * len(schedules))
        panels = figure.subplots(len(schedules), 1, sharex=True, squeeze=False)[:, 0]
        for axes, schedule, of, waits in zip(panels, schedules, boxes, all_waits, strict=True):
            _style(axes, shortened(schedule.facts["policy"]), stretch.from_s, stretch.to_s, "x")
            rows = schedule.capacity
            axes.set_ylim(0, max(rows, 1))
            fine = of.right - of.left < _FINE / (72 * _WIDE) * (stretch.to_s - stretch.from_s)
            for told, face in _classes(waits, lower, upper):
                for shown, edge in ((told & ~fine, 0.25), (told & fine, 0.0)):
                    if shown.any():
                        axes.add_patch(_patch(of, shown, face, edge))
            if (until := schedule.facts["to_s"]) < stretch.to_s:
                axes.axvline(until, color=svg.MUTED, linewidth=1.0, linestyle=(0, (4, 2)))
            _mark_machines(axes, schedule)
            whole = rows / schedule.facts["per_unit"].get(schedule.resources[0], 1)
            axes.set_yticks([0, rows], ["0", f"{whole:,.10g}"])
            axes.set_ylabel(facts["unit"])
        _label_time(panels[-1], stretch.from_s, stretch.to_s, facts)
        figure.legend(
            handles=list(_legend(lower, upper, facts["clock"], all_waits)), ncols=5,
            loc="outside upper left", frameon=False, fontsize=8, labelcolor=svg.INK,
            handlelength=1.2,
        )  # fmt: skip
        policies = " and ".join(schedule.facts["policy"] for schedule in schedules)
        drawn = ", ".join(f"{len(np.unique(of.job)):,}" for of in boxes)
        text = f"Jobs as rectangles over time under {policies}; drawn jobs: {drawn}"
        return compact(svg.to_svg(figure, name, text))


def strips_plot(
    schedules: Sequence[Schedule], begin: float, end: float, stretch: Stretch, name: str
) -> str:
    """Plot the strips of one or two schedules; the part that is drawn elsewhere is tinted."""
    edges = np.linspace(begin, end, POINTS + 1)
    found = [strips_of(schedule, edges) for schedule in schedules]
    middles = (edges[:-1] + edges[1:]) / 2
    with svg.settings():
        figure = svg.new_figure(_WIDE, 0.7 + 1.15 * len(found[0]))
        panels = figure.subplots(len(found[0]), 1, sharex=True, squeeze=False)[:, 0]
        for axes, strip in zip(panels, found[0], strict=True):
            title = strip if strip != AREA else f"{strip} [{area_unit(schedules[0])}]"
            _style(axes, title, begin, end)
            if stretch.number:
                axes.axvspan(stretch.from_s, stretch.to_s, color=svg.MUTED, alpha=0.16, linewidth=0)
            for (color, dashes), schedule, of in zip(_LINES, schedules, found, strict=False):
                label = shortened(schedule.facts["policy"])
                axes.plot(
                    middles, of[strip], color=color, linestyle=dashes, linewidth=1.2, label=label
                )
            axes.set_ylim(bottom=0)
            axes.locator_params(axis="y", nbins=4)
        _label_time(panels[-1], begin, end, schedules[0].facts)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False,
                      fontsize=8, labelcolor=svg.INK)  # fmt: skip
        policies = " and ".join(schedule.facts["policy"] for schedule in schedules)
        text = f"{', '.join(found[0])} over time under {policies}"
        return compact(svg.to_svg(figure, name, text))


def _style(axes: Any, title: str, begin: float, end: float, grid: str = "both") -> None:
    svg.style_axes(axes, grid=grid)
    axes.set_title(title, loc="left", fontsize=8.5, color=svg.INK)
    axes.set_xlim(begin, end if end > begin else begin + 1)


def _classes(waits: Floats, lower: float, upper: float) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Yield which rectangles have a colour, (R,), and the colour."""
    yield np.isnan(waits), svg.GRID
    yield waits <= 0, svg.SIMPLE
    yield (waits > 0) & (waits < lower), svg.LINES[0]
    yield (waits >= lower) & (waits < upper), svg.LINES[1]
    yield waits >= upper, svg.INK


def _legend(lower: float, upper: float, clock: str, waits: Sequence[Floats]) -> Iterator[Any]:
    from matplotlib.patches import Patch

    short, long = span_of(lower, clock), span_of(upper, clock)
    texts = ("wait not counted", "no wait", f"below {short}", f"{short} to {long}", f"from {long}")
    there = [list(_classes(each, lower, upper)) for each in waits]
    for place, text in enumerate(texts):
        if any(each[place][0].any() for each in there):
            color = there[0][place][1]
            edge = svg.MUTED if color == svg.GRID else color
            yield Patch(facecolor=color, edgecolor=edge, linewidth=0.6, label=text)


def _patch(of: Boxes, shown: NDArray[np.bool_], face: str, edge: float) -> Any:
    """Return rectangles as one patch, which is one element of the page."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    sides = (of.left, of.right, of.low, of.high)
    left, right, low, high = (np.compress(shown, side).astype(float) for side in sides)
    corners = np.stack([left, low, right, low, right, high, left, high, left, low], axis=1)
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(left)
    path = Path(corners.reshape(-1, 2), codes)
    uncounted = face == svg.GRID
    return PathPatch(
        path, facecolor=face, edgecolor=svg.MUTED if uncounted else svg.PAPER,
        linewidth=max(edge, 0.4) if uncounted else edge,
    )  # fmt: skip


def _mark_machines(axes: Any, schedule: Schedule) -> None:
    """Draw lines between machines, unless there are many."""
    amounts = schedule.facts["machines"].get(schedule.resources[0], ())
    if schedule.on_machines and 1 < len(amounts) <= _MACHINES:
        for at in np.cumsum(amounts)[:-1]:
            axes.axhline(at, color=svg.GRID, linewidth=0.6)


def span_of(length: float, clock: str) -> str:
    """Return a round length of time of a schedule's clock in words."""
    if clock != "s":
        return f"{length:,.10g} {clock}" + ("" if length == 1 else "s")
    size, one, many = next((unit for unit in _UNITS if length >= unit[0]), _UNITS[-1])
    return f"{length / size:,.3g} {one if length == size else many}"


def day_of(at_s: float, facts: Any, *, year: bool = False) -> str:
    """Return the day of a moment of a clock in seconds: a date where it is known."""
    if facts["epoch"] is None:
        return f"day {int(at_s // 86_400) + 1:,}"
    date = datetime.fromtimestamp(facts["epoch"] + at_s, UTC)
    return f"{date.day} {date:%b %Y}" if year else f"{date.day} {date:%b}"


def _label_time(axes: Any, begin: float, end: float, facts: Any) -> None:
    """Put round ticks on the axis of time, whole days where these are long enough."""
    if facts["clock"] != "s":
        axes.set_xlabel(f"{facts['clock']}s")
        return
    length, offset = max(end - begin, 1.0), facts["epoch"] or 0
    step = next((s for s in _STEPS_S if length / s <= 8), length / 8)
    first = np.ceil((begin + offset) / step) * step - offset
    ticks = np.arange(first, end + 1e-6, step)
    texts = []
    for tick in ticks:
        second = int((tick + offset) % 86_400)
        time = f"{second // 3600:02}:{second // 60 % 60:02}"
        time += f":{second % 60:02}" if step < 60 else ""
        of_day = day_of(tick, facts, year=length > _NEEDS_YEAR_S)
        texts.append(of_day if step >= 86_400 else f"{of_day}, {time}")
    axes.set_xticks(ticks, texts)
    zone = "UTC" if facts["epoch"] is not None else "day 1 is the first of the log's clock"
    axes.set_xlabel(f"time ({zone})")


_PATH: Final = re.compile(r' d="([^"]*)"')
_BOX: Final = re.compile(
    r"M (\S+) (\S+) L (\S+) \2 L \3 (\S+) L \1 \4 (?:L \1 \2 )?z ?"
)  # matplotlib's rectangle
_LINE: Final = re.compile(r"[-.\d]+ [-.\d]+(?: L [-.\d]+ [-.\d]+){3,}")
_TIGHT: Final = re.compile(" ?([MLQClz]) ?")


def compact(markup: str) -> str:
    """Return a plot whose paths have two decimals, and rectangles relative sides."""

    def rectangle(match: re.Match[str]) -> str:
        x, y, right, top = map(float, match.groups())
        width, height = _short(right - x), _short(top - y)
        return f"M{_short(x)} {_short(y)}h{width}v{height}h{_short(x - right)}z"

    def line(match: re.Match[str]) -> str:
        """Return a line with differences between points, which have fewer digits."""
        numbers = np.array([float(w) for w in match.group().split() if w != "L"]).reshape(-1, 2)
        steps = np.diff(numbers, axis=0, prepend=np.zeros((1, 2)))
        words = [" ".join(map(_short, step)) for step in steps.tolist()]
        return f"{words[0]}l{' '.join(words[1:])}"

    def path(match: re.Match[str]) -> str:
        words = [w if w.isalpha() else _short(float(w)) for w in match.group(1).split()]
        text = _LINE.sub(line, _BOX.sub(rectangle, " ".join(words)))
        return f' d="{_TIGHT.sub(lambda match: match.group(1), text)}"'

    return _PATH.sub(path, markup)


def _short(number: float) -> str:
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text
