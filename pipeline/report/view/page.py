"""Page of one or two schedules of the same window: one HTML file that fetches nothing.

The same schedules give the same bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.pages.numbers import (
    MISSING,
    TimeUnit,
    count_of,
    percent,
    three_digits,
    time_unit,
)
from hindcast.pipeline.pages.tables import NOTHING, Cell, Column, Row, Table
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.report.view.decisions import decisions_part
from hindcast.pipeline.report.view.inlining import inlined
from hindcast.pipeline.report.view.model import Model, model_of, page_data, strips
from hindcast.pipeline.schedules.difference import Comparison
from hindcast.pipeline.schedules.schedule import Schedule
from hindcast.pipeline.schedules.sentences import moment
from hindcast.pipeline.storage.files import make_folder, write_text

_HERE: Final = Path(__file__).parent
_MODULE: Final = ("decode.js", "data.js", "strips.js", "table.js", "gantt.js", "moves.js")
_KEYS: Final[Mapping[str, str]] = {
    "drag": "moves the time axis; with Select, or with Shift held, selects jobs for the table",
    "Ctrl_+_wheel pinch": "zooms the time axis where the pointer is",
    "Alt_+_wheel [ ]": "zooms the axis of processors",
    "tap click": "shows a job, in every schedule",
    "← →": "move the time axis; ↑ and ↓ move the axis of processors",
    "+ - 0": "zoom in, zoom out, show all",
    "n p": "show the next and the previous job, by start",
    "m": "shows the next job that the other schedule starts at another moment",
    "Enter": "lists the jobs of the part that is shown",
    "Esc": "ends a selection, and leaves a job",
}


def write_view(
    schedules: Sequence[Schedule],
    out: Path,
    comparison: Comparison | None = None,
    cautions: Sequence[str] = (),
) -> Path:
    """Write the page of one or two schedules.

    Args:
        schedules: One schedule, or two of the same window; the second is compared with the first.
        out: File of the page.
        comparison: Decisions at which their policies differ, if they are known.
        cautions: Sentences about the workload that limit what may be concluded.

    Raises:
        InputError: The schedules are of different jobs.
        StorageError: The file cannot be written.
    """
    make_folder(out.parent)
    write_text(out, page_of(model_of(schedules), comparison, cautions))
    return out


def page_of(
    model: Model, comparison: Comparison | None = None, cautions: Sequence[str] = ()
) -> str:
    """Return the page of a model."""
    unit = _unit(model)
    decisions = {} if comparison is None else decisions_part(model, comparison, unit)
    policies = [schedule.facts["policy"] for schedule in model.schedules]
    heading = " beside ".join(policies)
    return render(
        _HERE / "view.html.jinja",
        data=page_data(model),
        **inlined(_MODULE),
        heading=heading,
        facts=list(_facts(model)),
        sentence=" ".join(_sentences(model, unit)),
        cautions=[*_cautions(model), *cautions],
        numbers=_numbers(model, unit),
        policies=[
            [_lane(of.schedules[i]) for of in model.resources] for i in range(len(policies))
        ],
        strips=list(_strips(model)),
        notes=list(_notes(model)),
        decisions=decisions,
        keys={k: v for k, v in _KEYS.items() if k != "m" or len(policies) > 1},
        sections={
            "drawing": "Schedules" if len(policies) > 1 else "Schedule",
            **({"decisions": "The first decision that differs"} if decisions else {}),
            "notes": "How this is drawn", "keys": "Mouse, touch and keys",
            "provenance": "Provenance",
        },
        provenance=_provenance(model),
    )  # fmt: skip


def _unit(model: Model) -> TimeUnit:
    """Return the unit of all waits in the text of the page."""
    clock = model.schedules[0].facts["clock"]
    if clock != "s":
        return TimeUnit(f"{clock}s", 1.0)
    means = [_mean(schedule.jobs["wait_s"].to_numpy()) for schedule in model.schedules]
    return time_unit(max((mean for mean in means if mean is not None), default=0.0))


def _mean(values: NDArray[np.float64]) -> float | None:
    """Return the mean of the values that are known, None if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _facts(model: Model) -> Iterator[str]:
    facts = model.schedules[0].facts
    source = facts["source"]
    yield f"scenario {facts['scenario']}"
    yield str(source.get("recipe") or source.get("log") or "source unknown")
    if facts["window"] is not None:
        yield f"window {facts['window']}"
    yield count_of(model.count, "job")
    amounts = [_amount(schedule, schedule.capacity) for schedule in model.schedules]
    yield " and ".join(dict.fromkeys(amounts)) + f" {facts['unit']}"
    if facts["clock"] == "s":
        length = facts["to_s"] - facts["from_s"]
        days = length >= 2 * 86_400
        yield f"{length / 86_400:.1f} days" if days else time_unit(length).text(length)


def _amount(schedule: Schedule, parts: float) -> str:
    amount = parts / schedule.facts["per_unit"].get(schedule.resources[0], 1)
    return f"{amount:,.0f}" if amount == int(amount) else three_digits(amount)


class _Moves(NamedTuple):
    """Starts of the second schedule less those of the first, of jobs that both start."""

    by_s: NDArray[np.float64]
    alone: tuple[int, int]  # jobs that only one of them starts

    @property
    def moved(self) -> NDArray[np.float64]:
        return np.compress(self.by_s != 0, self.by_s)


def moves_of(model: Model) -> _Moves:
    """Return by how much jobs moved."""
    first, second = model.spread(0, "start_s"), model.spread(1, "start_s")
    by, started = second - first, (~np.isnan(first), ~np.isnan(second))
    only = [int((started[i] & ~started[1 - i]).sum()) for i in range(2)]
    return _Moves(by[~np.isnan(by)], (only[0], only[1]))


def _sentences(model: Model, unit: TimeUnit) -> Iterator[str]:
    """Yield what the schedules are, in sentences with numbers."""
    names = [schedule.facts["policy"] for schedule in model.schedules]
    if len(names) == 1:
        jobs = model.schedules[0].jobs
        started = jobs.height - jobs["start_s"].null_count()
        yield f"{names[0]} starts {started:,} of {count_of(jobs.height, 'job')}."
    else:
        by = moves_of(model)
        if not len(by.moved):
            yield f"{names[1]} starts each of {count_of(len(by.by_s), 'job')} when {names[0]} does."
        else:
            later, earlier = int((by.moved > 0).sum()), int((by.moved < 0).sum())
            median = float(np.median(np.abs(by.moved)))
            own = time_unit(median) if model.schedules[0].facts["clock"] == "s" else unit
            yield (
                f"{names[1]} starts {len(by.moved):,} of {count_of(len(by.by_s), 'job')} at "
                f"another moment than {names[0]}: {earlier:,} earlier and {later:,} later, by "
                f"{own.text(median)} in the median."
            )
        alone = [count_of(n, "job") for n in by.alone]
        if any(by.alone):
            yield f"{names[0]} alone starts {alone[0]}, {names[1]} alone {alone[1]}."
    if 0 not in strips(model):
        return
    means = [_mean(schedule.jobs["wait_s"].to_numpy()) for schedule in model.schedules]
    slow = [_mean(schedule.jobs["bounded_slowdown"].to_numpy()) for schedule in model.schedules]
    waits = [f"{_time(unit, mean)} under {name}" for mean, name in zip(means, names, strict=True)]
    yield f"The mean wait is {' and '.join(waits)}."
    slows = [f"{_or_missing(mean)} under {name}" for mean, name in zip(slow, names, strict=True)]
    yield f"The mean bounded slowdown is {' and '.join(slows)}."


def _time(unit: TimeUnit, seconds: float | None) -> str:
    return MISSING if seconds is None else unit.text(seconds)


def _or_missing(number: float | None) -> str:
    return MISSING if number is None else three_digits(number)


def _cautions(model: Model) -> Iterator[str]:
    if len(model.schedules) > 1:
        yield (
            "This page shows one window, so its differences have no interval. hindcast evaluate "
            "compares policies on many windows."
        )
    for of in model.resources:
        for schedule, drawn in zip(of.schedules, of.rectangles, strict=True):
            if len(drawn.left_out):
                are = "is" if len(drawn.left_out) == 1 else "are"
                yield (
                    f"{count_of(len(drawn.left_out), 'job')} of {schedule.facts['policy']} {are} "
                    f"not drawn: at those times, more {schedule.facts['unit']} are held than there "
                    "are. Strips and tables have all."
                )


def _numbers(model: Model, unit: TimeUnit) -> Table:
    """Return the table of both schedules in numbers."""
    waited = [
        f"mean wait [{unit.name}]", f"median wait [{unit.name}]", f"95 % wait below [{unit.name}]",
        f"longest wait [{unit.name}]", "mean bounded slowdown",
    ]  # fmt: skip
    with_waits = 0 in strips(model)
    head: list[str | Column] = [
        "policy", Column("jobs started", decimals=0), Column("not started", decimals=0),
        *waited * with_waits, "utilisation", *(f"utilisation of {name}" for name in model.further),
    ]  # fmt: skip
    rows = []
    for i, schedule in enumerate(model.schedules):
        jobs = schedule.jobs
        waits = jobs["wait_s"].drop_nulls().to_numpy()
        slow = _mean(jobs["bounded_slowdown"].to_numpy())
        never = jobs["start_s"].null_count()
        measures = [waits.mean(), *np.quantile(waits, [0.5, 0.95, 1.0])] if len(waits) else []
        times = [Cell(unit.number(t), float(t)) for t in measures] or [Cell(NOTHING)] * 4
        busy = [_utilisation(of.schedules[i]) for of in model.resources]
        rows.append(Row([
            Cell(schedule.facts["policy"]), jobs.height - never, never,
            *[*times, Cell(NOTHING) if slow is None else Cell(three_digits(slow), slow)]
            * with_waits,
            *(
                Cell(NOTHING) if share is None else Cell(percent(share, signed=False), share)
                for share in busy
            ),
        ]))  # fmt: skip
    counted = [int(s.jobs["wait_s"].drop_nulls().len()) for s in model.schedules]
    jobs_counted = " and ".join(dict.fromkeys(f"{n:,}" for n in counted))
    text = (
        f" Waits and slowdowns are of the {jobs_counted} jobs that the scenario counts and that "
        "started."
    ) * with_waits  # fmt: skip
    text += (
        " Utilisation is what jobs hold from the beginning of the window to the end of each play, "
        "which differs between policies, as a share of all."
    )
    return Table("In numbers.", text, head, rows)


def _utilisation(schedule: Schedule) -> float | None:
    """Return the share of the first resource that is held during the window."""
    facts, name = schedule.facts, schedule.resources[0]
    begin, end = facts["from_s"], facts["to_s"]
    steps = [(s, a) for s, a in facts["levels"].get(name, ()) if s < end]
    since = [begin, *(max(s, begin) for s, _ in steps)]
    there = [facts["capacity"][name], *(amount for _, amount in steps)]
    whole = float(np.dot(np.diff([*since, end]), there))
    jobs = schedule.jobs.drop_nulls("start_s")
    times = jobs["end_s"].clip(begin, end) - jobs["start_s"].clip(begin, end)
    return float((times * jobs["processors"]).sum()) / whole if whole > 0 else None


def _lane(schedule: Schedule) -> dict[str, str]:
    rows = f"{_amount(schedule, schedule.capacity)} {schedule.facts['unit']}"
    packed = "rows packed by this page"
    if schedule.on_machines:
        machines = schedule.facts["machines"][schedule.resources[0]]
        packed = f"on {count_of(len(machines), schedule.facts['machine'] or 'machine')}"
    return {
        "name": schedule.facts["policy"],
        "text": f"{rows}, {packed}",
        "label": f"{schedule.facts['policy']}: jobs as rectangles, time from left to right, {rows}",
    }


def _strips(model: Model) -> Iterator[dict[str, Any]]:
    clock = model.schedules[0].facts["clock"]
    times = "hours" if clock == "s" else f"{clock}s"
    area = f"work that waits, in {times} of the whole machine"
    units = model.units
    told: tuple[tuple[str, list[str]], ...] = (
        ("Queue length", ["jobs that wait"] * len(units)),
        ("Utilisation", [f"{unit} held, %" for unit in units]),
        ("Waiting area", [area, *(f"{area}, of {unit}" for unit in units[1:])]),
    )
    for number in strips(model):
        yield {"number": number, "title": told[number][0], "texts": told[number][1]}


def _notes(model: Model) -> Iterator[str]:
    """Yield how the drawing was made, and what it leaves out."""
    yield (
        "A job is a rectangle: its width is the time from its start to its end, its height is what "
        "it holds. Each pixel shows the job that runs at its middle, so that a part of the drawing "
        "that is full is full at any zoom; jobs that are smaller than a pixel may be hidden. The "
        "job that is looked at, and jobs that a search finds, are never smaller than two pixels."
    )
    unit = model.schedules[0].facts["unit"]
    for i, schedule in enumerate(model.schedules):
        facts, drawn = schedule.facts, model.rectangles[i]
        if not schedule.on_machines:
            cut = int((np.bincount(drawn.job, minlength=1) > 1).sum())
            yield (
                f"{facts['policy']}: the schedule does not say on which {unit} a job ran. This "
                "page packs the rows: the place of a job on that axis is the page's choice, its "
                f"times and height are the schedule's. {count_of(cut, 'job')} found no gap that "
                f"is large enough and {'is' if cut == 1 else 'are'} drawn as several rectangles."
            )
        never = schedule.jobs["start_s"].null_count()
        if never:
            yield (
                f"{facts['policy']}: {count_of(never, 'job')} did not start by "
                f"{moment(facts['to_s'], facts)}, the end of what is known. They have no "
                "rectangle; those that were not refused wait until then in the strips."
            )
        for of in model.resources:
            nothing = int((of.schedules[i].jobs["processors"] == 0).sum())
            if nothing:
                held = of.schedules[i].facts["unit"]
                yield f"{facts['policy']}: {count_of(nothing, 'job')} hold no {held}: no rectangle."
        without = model.count - schedule.jobs.height
        if without:
            yield f"{facts['policy']}: {count_of(without, 'job')} of the other are not in this one."
    if model.further:
        yield (
            f"Resource chooses what is drawn, {' or '.join(model.units)}: "
            "heights, places, colours by size, utilisation and waiting area are of that resource. "
            "Where in a machine a job lies is the page's choice."
        )
    yield (
        "Strips have a point for every pixel: the mean over it. Waiting area is the requested time "
        "of the jobs that wait times what they ask for, divided by the capacity."
        f"{_without_request(model)}"
    )


def _without_request(model: Model) -> str:
    """Return what stands for requested times that are not known."""
    unknown = max(schedule.jobs["requested_s"].null_count() for schedule in model.schedules)
    if not unknown:
        return ""
    return (
        f" {count_of(unknown, 'job')} without a requested time "
        f"{'has its' if unknown == 1 else 'have their'} run time there; those of them that did not "
        "start are left out."
    )


def _provenance(model: Model) -> dict[str, str]:
    facts = model.schedules[0].facts
    source = facts["source"]
    kind = "recipe" if "recipe" in source else "log"
    found = {kind: source.get(kind, ""), "digest": source.get("digest", "")}
    for schedule in model.schedules:
        own = schedule.facts
        if own["seed"] is not None:
            key = f"play of {own['policy']}"
            found[f"{key}, B" if key in found else key] = str(own["seed"])
    found["from"] = moment(facts["from_s"], facts)
    found["to"] = moment(facts["to_s"], facts)
    return found
