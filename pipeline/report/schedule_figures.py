"""Figures of one or two schedules on a page, with what they say in words."""

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from hindcast.pipeline.pages.numbers import (
    count_of,
    decimals_telling,
    three_digits,
    time_unit,
    write_number,
)
from hindcast.pipeline.report.schedule_plots import (
    POINTS,
    Boxes,
    boxes_of,
    day_of,
    gantt_plot,
    span_of,
    strips_plot,
)
from hindcast.pipeline.report.view.packing import rectangles
from hindcast.pipeline.report.view.strips import (
    AREA,
    WEEK_S,
    Stretch,
    area_unit,
    strips_of,
    whole,
    worst_part,
)
from hindcast.pipeline.schedules.schedule import Schedule
from hindcast.pipeline.schedules.sentences import moment

_SMALLEST_SHARE: Final = 0.0001
_HIDDEN: Final = 0.01  # share of what is held that a picture may leave out before it is shortened
_LENGTHS_S: Final = {"week": WEEK_S, "day": 86_400.0, "6 hours": 21_600.0, "hour": 3600.0}
_PARTS: Final = (4, 16, 64)  # of a clock without seconds


class Figure(NamedTuple):
    """A plot with its caption.

    Attributes:
        plot: An <svg> element.
        title: Beginning of the caption, in bold.
        text: Rest of the caption.
    """

    plot: str
    title: str
    text: str


def figures_of(
    schedules: Sequence[Schedule], where: str, caution: str = ""
) -> Iterator[Figure]:  # fmt: skip
    """Yield the strips over all of the time, and the worst week as rectangles.

    The week is the worst one of the first schedule. A schedule of less than two weeks is drawn from
    its beginning to its end. A week with too many jobs is shortened to a day, and so on.

    Args:
        schedules: One schedule, or two of the same jobs.
        where: What the schedules are of, in words: "the run".
        caution: Sentence about what the rectangles do not say.
    """
    facts = schedules[0].facts
    begin, end = facts["from_s"], max(schedule.facts["to_s"] for schedule in schedules)
    if facts["to_s"] <= begin or not schedules[0].jobs.height:
        return
    drawn = next(each for each in _drawings(schedules) if each.is_last or each.shows_enough)
    policies = " and ".join(schedule.facts["policy"] for schedule in schedules)
    name = f"{where} {policies}"
    yield Figure(
        strips_plot(schedules, begin, end, drawn.stretch, f"strips {name}"),
        _strips_title(schedules[0]),
        " ".join(_strips_text(schedules, drawn.stretch, end - begin)),
    )
    text = [
        *_stretch_text(schedules, drawn, where), caution, *_boxes_text(schedules, drawn)
    ]  # fmt: skip
    plot = gantt_plot(schedules, drawn.boxes, drawn.stretch, f"gantt {name}")
    yield Figure(plot, _title(drawn, where, facts["policy"]), " ".join(filter(None, text)))


class _Drawing(NamedTuple):
    """A part that may be drawn.

    Attributes:
        stretch: The part.
        length: Its length in words, "" for all.
        boxes: What is drawn of each schedule.
        is_last: Whether there is no shorter one.
        is_cut: Whether a longer one has too many jobs.
    """

    stretch: Stretch
    length: str
    boxes: list[Boxes]
    is_last: bool
    is_cut: bool

    @property
    def shows_enough(self) -> bool:
        return all(of.hidden_share <= _HIDDEN for of in self.boxes)


def _drawings(schedules: Sequence[Schedule]) -> Iterator[_Drawing]:
    """Yield the parts that may be drawn, longer ones first."""
    first, facts = schedules[0], schedules[0].facts
    length = facts["to_s"] - facts["from_s"]
    lengths = _LENGTHS_S
    if facts["clock"] != "s":
        lengths = {f"part of {span_of(length / n, facts['clock'])}": length / n for n in _PARTS}
    found = [(name, worst_part(first, each)) for name, each in lengths.items()]
    parts = [(name, part) for name, part in found if part is not None]
    if facts["clock"] != "s" or length < 2 * WEEK_S:
        end = max(schedule.facts["to_s"] for schedule in schedules)
        parts.insert(0, ("", whole(first)._replace(to_s=end)))
    packed = [(schedule, rectangles(schedule)) for schedule in schedules]
    for place, (name, part) in enumerate(parts):
        boxes = [boxes_of(*each, part.from_s, part.to_s) for each in packed]
        yield _Drawing(part, name, boxes, place == len(parts) - 1, place > 0)


def _title(drawn: _Drawing, where: str, policy: str) -> str:
    stretch = drawn.stretch
    if not stretch.number:
        return f"From beginning to end of {where}."
    which = f"worst {drawn.length} under {policy}" if stretch.area else f"first {drawn.length}"
    return f"The {which}: number {stretch.number:,} of {stretch.parts:,} of {where}."


def _strips_title(schedule: Schedule) -> str:
    if schedule.facts["clock"] == "arrival":
        return "Utilisation over time."
    return "Queue length, utilisation and waiting area over time."


def _strips_text(
    schedules: Sequence[Schedule], stretch: Stretch, length: float
) -> Iterator[str]:  # fmt: skip
    clock, step = schedules[0].facts["clock"], length / POINTS
    told = time_unit(step).text(step) if clock == "s" else f"{three_digits(step)} {clock}s"
    yield f"Each point is the mean over {told}."
    if stretch.area is None:
        return
    yield (
        "The waiting area is the requested time of the jobs that wait times what they ask for, "
        "divided by the capacity."
    )
    unknown = max(schedule.jobs["requested_s"].null_count() for schedule in schedules)
    if unknown:
        yield (
            f"{count_of(unknown, 'job')} without a requested time count by their run time, and not "
            "at all if they did not start."
        )
    if stretch.number:
        yield "The tinted part is drawn below."


def _stretch_text(schedules: Sequence[Schedule], drawn: _Drawing, where: str) -> Iterator[str]:
    """Yield the sentences that say which part of the time is drawn, and how it was chosen."""
    facts, unit, stretch = schedules[0].facts, area_unit(schedules[0]), drawn.stretch
    if facts["clock"] == "s":
        days = [day_of(at, facts, year=True) for at in (stretch.from_s, stretch.to_s)]
        yield f"From {days[0]} to {days[1]}." if days[0] != days[1] else f"On {days[0]}."
    if drawn.is_cut and (facts["clock"] != "s" or drawn.length != "week"):
        yield "A longer part has too many jobs for this picture."
    if stretch.area is None or stretch.mean is None:
        return
    if stretch.number and stretch.area:
        yield (
            f"Chosen as the {drawn.length} of {where} with the largest mean waiting area under "
            f"{facts['policy']}, so it is not typical: {_area(stretch.area)} {unit}. Over all of "
            f"{where}, it is {_area(stretch.mean)} {unit} under {facts['policy']}."
        )
    elif stretch.number:
        part = f"each whole {drawn.length}" if stretch.mean else "all"
        yield f"The waiting area is 0 in {part} of {where} under {facts['policy']}."
    # Means stand beside each other where they are over the same time.
    end = min(stretch.to_s, *(each.facts["to_s"] for each in schedules))
    if end > stretch.from_s and (len(schedules) > 1 or not stretch.number):
        edges = np.array([stretch.from_s, end])
        areas = [
            f"{_area(strips_of(each, edges)[AREA][0])} {unit} under {each.facts['policy']}"
            for each in schedules
        ]
        part = " of this part" if stretch.number else ""
        until = (
            f" until {moment(end, facts)}, where the first play ends," if end < stretch.to_s else ""
        )
        yield f"The mean waiting area{part}{until} is {' and '.join(areas)}."


def _area(mean: float) -> str:
    """Return a waiting area with three digits, however small it is."""
    mean = round(mean, 8)
    return write_number(mean, decimals_telling([mean / 100], 0) if math.isfinite(mean) else 0)


def _boxes_text(schedules: Sequence[Schedule], drawn: _Drawing) -> Iterator[str]:
    """Yield the sentences that say how rectangles are to be read."""
    boxes = drawn.boxes
    facts = schedules[0].facts
    counted = " Jobs with a grey edge have none that counts." if any(
        schedule.jobs["wait_s"].gather(np.unique(of.job)).null_count()
        for schedule, of in zip(schedules, boxes, strict=True)
    ) else ""  # fmt: skip
    waits = "" if facts["clock"] == "arrival" else f", its colour is its wait.{counted}"
    yield f"A rectangle is a job, its height is its {facts['unit']}{waits or '.'}"
    if not all(schedule.on_machines for schedule in schedules):
        place = facts["machine"] or facts["unit"]
        yield (
            f"The schedules do not say on which {place} a job ran, so that this page packs the "
            "rows; a job that finds no large gap is several rectangles."
        )
    if facts["levels"].get(schedules[0].resources[0]):
        yield "The capacity changes: there are rows for its largest value."
    for schedule, of in zip(schedules, boxes, strict=True):
        policy = schedule.facts["policy"]
        if (until := schedule.facts["to_s"]) < drawn.stretch.to_s:
            yield (
                f"The play under {policy} ends at {moment(until, facts)}, the dashed line: jobs "
                "that start later are not known."
            )
        if not drawn.stretch.number:
            started = schedule.jobs.filter(pl.col("start_s").is_not_null())
            counts = {
                "that did not start": schedule.jobs.height - started.height,
                f"without {facts['unit']}": int((started["processors"] == 0).sum()),
            }
            without = [
                f"{count_of(count, 'job')} {which}" for which, count in counts.items() if count
            ]
            if without:
                yield f"Without a rectangle under {policy}: {', '.join(without)}."
        if of.hidden:
            yield (
                f"Not drawn under {policy}: {count_of(of.hidden, 'job')}, the smallest ones and "
                "those in very many pieces, "
                f"{_percent(of.hidden_share)} of the time of the {facts['unit']} held."
            )
        if of.too_many:
            yield (
                f"Not drawn under {policy}: {count_of(of.too_many, 'job')} of moments at which "
                f"more {facts['unit']} are held than there are."
            )


def _percent(share: float) -> str:
    return "less than 0.01 %" if share < _SMALLEST_SHARE else f"{three_digits(100 * share)} %"
