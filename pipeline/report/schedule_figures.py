"""Figures of one or two schedules on a page, with what they say in words."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from hindcast.pipeline.pages.numbers import count_of, three_digits, time_unit
from hindcast.pipeline.report.schedule_plots import (
    POINTS,
    Boxes,
    boxes_of,
    day_of,
    gantt_plot,
    strips_plot,
)
from hindcast.pipeline.report.view.packing import on_machines
from hindcast.pipeline.report.view.strips import (
    AREA,
    Stretch,
    area_unit,
    strips_of,
    worst_week,
)
from hindcast.pipeline.schedules.schedule import Schedule
from hindcast.pipeline.schedules.sentences import moment

_SMALLEST_SHARE: Final = 0.0001


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


def figures_of(schedules: Sequence[Schedule], where: str, caution: str = "") -> Iterator[Figure]:
    """Yield the strips over all of the time, and the worst week as rectangles.

    The week is the worst one of the first schedule. A schedule that is shorter than a week is
    drawn from its beginning to its end.

    Args:
        schedules: One schedule, or two of the same jobs.
        where: What the schedules are of, in words: "the run".
        caution: Sentence about what the rectangles do not say.
    """
    facts = schedules[0].facts
    begin, end = facts["from_s"], max(schedule.facts["to_s"] for schedule in schedules)
    if end <= begin or not schedules[0].jobs.height:
        return
    stretch = worst_week(schedules[0])
    if not stretch.week:
        stretch = stretch._replace(to_s=end)
    policies = " and ".join(schedule.facts["policy"] for schedule in schedules)
    name = f"{where} {policies}"
    yield Figure(
        strips_plot(schedules, begin, end, stretch, f"strips {name}"),
        _strips_title(schedules[0]), " ".join(_strips_text(schedules, stretch, end - begin)),
    )  # fmt: skip
    boxes = [boxes_of(schedule, stretch.from_s, stretch.to_s) for schedule in schedules]
    text = [
        *_stretch_text(schedules, stretch, where),
        caution,
        *_boxes_text(schedules, boxes, stretch.to_s),
    ]
    title = (
        f"Week {stretch.week} of {stretch.weeks}, the worst under {facts['policy']}."
        if stretch.week else f"All jobs of {where}."
    )  # fmt: skip
    yield Figure(
        gantt_plot(schedules, boxes, stretch, f"gantt {name}"), title, " ".join(filter(None, text))
    )


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
        yield f"{count_of(unknown, 'job')} without a requested time count by their run time."
    if stretch.week:
        yield "The tinted week is drawn below."


def _stretch_text(schedules: Sequence[Schedule], stretch: Stretch, where: str) -> Iterator[str]:
    facts, unit = schedules[0].facts, area_unit(schedules[0])
    if facts["clock"] == "s":
        days = [day_of(at, facts, year=True) for at in (stretch.from_s, stretch.to_s)]
        yield f"From {days[0]} to {days[1]}." if days[0] != days[1] else f"On {days[0]}."
    if stretch.area is None or stretch.mean is None:
        return
    areas = [f"{three_digits(stretch.area)} {unit} under {facts['policy']}"]
    for other in schedules[1:]:
        end = min(stretch.to_s, other.facts["to_s"])
        area = strips_of(other, np.array([stretch.from_s, end]))[AREA][0]
        areas.append(f"{three_digits(area)} {unit} under {other.facts['policy']}")
    if not stretch.week:
        yield f"The mean waiting area is {' and '.join(areas)}."
        return
    yield (
        f"Chosen as the whole week of {where} with the largest mean waiting area under "
        f"{facts['policy']}, so it is not a typical one: {', '.join(areas)}. Over all of {where}, "
        f"it is {three_digits(stretch.mean)} {unit} under {facts['policy']}."
    )


def _boxes_text(schedules: Sequence[Schedule], boxes: Sequence[Boxes], end: float) -> Iterator[str]:
    facts = schedules[0].facts
    counted = " Jobs with a grey edge have none that counts." if any(
        schedule.jobs["wait_s"].gather(np.unique(of.job)).null_count()
        for schedule, of in zip(schedules, boxes, strict=True)
    ) else ""  # fmt: skip
    waits = "" if facts["clock"] == "arrival" else f", its colour is its wait.{counted}"
    yield f"A rectangle is a job, its height is its {facts['unit']}{waits or '.'}"
    if not all(map(on_machines, schedules)):
        place = facts["machine"] or facts["unit"]
        yield (
            f"The schedules do not say on which {place} a job ran, so that this page packs the "
            "rows; a job that finds no large gap is several rectangles."
        )
    for schedule, of in zip(schedules, boxes, strict=True):
        policy = schedule.facts["policy"]
        if (until := schedule.facts["to_s"]) < end:
            yield (
                f"The play under {policy} ends at {moment(until, facts)}, the dashed line: jobs "
                "that start later are not known."
            )
        if of.hidden:
            yield (
                f"Not drawn under {policy}: the {count_of(of.hidden, 'smallest job')}, "
                f"{_percent(of.hidden_share)} of the time of the {facts['unit']} held."
            )
        if of.too_many:
            yield (
                f"Not drawn under {policy}: {count_of(of.too_many, 'job')} of moments at which "
                f"more {facts['unit']} are held than there are."
            )


def _percent(share: float) -> str:
    return "less than 0.01 %" if share < _SMALLEST_SHARE else f"{100 * share:.2g} %"
