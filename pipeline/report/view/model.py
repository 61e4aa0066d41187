"""Model of a page of one or two schedules: their jobs in one order, and their rectangles.

Jobs are rows in order of submission, those of both schedules together. A job that only one
schedule has is absent from the other. Columns of schedule 0 and 1 end in 0 and 1:

    job, part, name, requested         of the job; `name` only if all names are whole numbers
    user, queue, partition, account    number of the text in `words`, from 1; 0 is unknown
    submit0, eligible0, start0, end0   times
    wait0                              wait as the scenario counts it
    amount0                            what the job holds of the resource that is drawn
    rect0, low0, cut0                  of each rectangle: row of the job, lowest row of the
                                       drawing, and amount0 less the height
    absent0, never0, uncounted0        rows of jobs that are not in the schedule, that did not
                                       start, and that have no wait though they started
    amount0_1, rect0_1, low0_1, cut0_1  the same of the first further resource, and so on
    refused0                           rows of jobs that did not start and do not wait
    unasked                            rows of jobs without a requested run time

A time without a meaning is any number: the lists say where. `page.js` reads all this back.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.report.view.coding import Column, coded, scale_of, text_of
from hindcast.pipeline.report.view.packing import Rectangles, rectangles
from hindcast.pipeline.report.view.strips import refused
from hindcast.pipeline.schedules.schedule import Schedule

_TEXTS: Final = ("user", "queue", "partition", "account")
_TIMES: Final = ("submit_s", "eligible_s", "start_s", "end_s", "wait_s")


@dataclass(frozen=True)
class Model:
    """One or two schedules of the same window.

    Attributes:
        schedules: The schedules.
        rows: For each schedule, the row of each of its jobs.
        count: Number of rows.
        rectangles: For each schedule, what is drawn; `job` is a row of the schedule.
        further: By further resource that jobs hold, the model with it in the place of processors.
    """

    schedules: tuple[Schedule, ...]
    rows: tuple[NDArray[np.int64], ...]
    count: int
    rectangles: tuple[Rectangles, ...]
    further: Mapping[str, "Model"]

    @property
    def resources(self) -> tuple["Model", ...]:
        """This model, and those of the further resources."""
        return (self, *self.further.values())

    @property
    def units(self) -> list[str]:
        """Words for a unit of each of `resources`."""
        return [of.schedules[0].facts["unit"] for of in self.resources]

    @property
    def jobs(self) -> NDArray[np.float64]:
        """Number of the job of each row."""
        return _of_either(self, "job")

    def spread(self, which: int, name: str) -> NDArray[Any]:
        """Return a column of a schedule by row, NaN where the schedule has no value."""
        values = self.schedules[which].jobs[name].cast(pl.Float64).to_numpy()
        found = np.full(self.count, np.nan)
        found[self.rows[which]] = values
        return found


def model_of(schedules: Sequence[Schedule]) -> Model:
    """Return the model of one or two schedules; raise InputError if they are of other jobs."""
    first = schedules[0].facts
    for other in schedules[1:]:
        for key in ("scenario", "clock", "unit", "window", "from_s", "source"):
            one, two = first[key], other.facts[key]
            if key == "source":
                one, two = one.get("digest"), two.get("digest")
            if one != two:
                raise InputError(
                    f"{first['policy']} and {other.facts['policy']}: these schedules are of "
                    f"different jobs ({key} is {_short(one)} and {_short(two)}), expected two of "
                    "the same window"
                )
    keys = [_keys(schedule) for schedule in schedules]
    both = pl.concat(keys).unique(["job", "part"], keep="first", maintain_order=True)
    both = both.sort("submit_s", "job", "part").with_row_index("row")
    rows = [
        key.join(both, on=["job", "part"], how="left", maintain_order="left")["row"]
        .cast(pl.Int64).to_numpy()
        for key in keys
    ]  # fmt: skip
    return Model(
        tuple(schedules), tuple(rows), both.height, tuple(rectangles(s) for s in schedules),
        {name: model_of([_of(name, one) for one in schedules]) for name in _further(schedules)},
    )  # fmt: skip


def _further(schedules: Sequence[Schedule]) -> Iterator[str]:
    """Yield the resources beside processors that a job holds, and that are known of all jobs."""
    for name in schedules[0].resources[1:]:
        known = all(one.facts["capacity"].get(name, 0) > 0 for one in schedules)
        known = known and not any(one.jobs[name].null_count() for one in schedules)
        if known and any((one.jobs[name] > 0).any() for one in schedules):
            yield name


def _of(name: str, schedule: Schedule) -> Schedule:
    """Return the schedule with a further resource in the place of processors, and no other."""
    facts = schedule.facts
    alone = {
        key: {"processors": facts[key][name]} if name in facts[key] else {}
        for key in ("capacity", "per_unit", "levels", "machines")
    }
    jobs = schedule.jobs.with_columns(processors=pl.col(name))
    return Schedule(jobs, {**facts, **alone, "unit": name})


def strips(model: Model) -> tuple[int, ...]:
    """Return the strips of the page: 0 queue length, 1 utilisation, 2 waiting area.

    Where the clock counts arrivals, nobody waits: what does not start is refused.
    """
    return (1,) if model.schedules[0].facts["clock"] == "arrival" else (0, 1, 2)


def _short(value: Any) -> str:
    return repr(value)[:20]


def _keys(schedule: Schedule) -> pl.DataFrame:
    return schedule.jobs.select("job", pl.col("part").fill_null(0), "submit_s")


@dataclass
class _Writer:
    """Columns that are being coded, and the whole numbers that later ones differ from."""

    scale: int
    columns: dict[str, Column] = field(default_factory=dict)
    numbers: dict[str, NDArray[Any]] = field(default_factory=dict)

    def time(self, name: str, values: NDArray[np.float64], base: str) -> None:
        """Add times, as differences to a sum of columns; NaN becomes the sum itself."""
        beside = np.zeros(len(values))
        for term in base.split() if base != "previous" else ():
            sign = -1 if term.startswith("-") else 1
            beside = beside + sign * self.numbers[term.lstrip("-")]
        values = np.where(np.isnan(values), beside, values)
        self.numbers[name] = values
        self.columns[name] = coded(values, base, beside, self.scale)

    def count(self, name: str, values: NDArray[Any], base: str = "") -> None:
        """Add whole numbers."""
        self.columns[name] = coded(values, base, self.numbers.get(base))
        self.numbers[name] = values

    def rows(self, name: str, flags: NDArray[np.bool_]) -> None:
        """Add the rows of which something holds."""
        self.count(name, np.flatnonzero(flags), "previous")


def page_data(model: Model) -> str:
    """Return all that the page draws, as the text of `coding.text_of`."""
    several = range(len(model.schedules))
    times = {(i, name): model.spread(i, name) for i in several for name in _TIMES}
    asked = _of_either(model, "requested_s")
    writer = _Writer(scale_of([*times.values(), asked]))
    writer.count("job", model.jobs.astype(np.int64), "previous")
    facts: dict[str, Any] = {
        "epoch": model.schedules[0].facts["epoch"],
        "clock": model.schedules[0].facts["clock"],
        "unit": model.schedules[0].facts["unit"],
        "count": model.count,
        "strips": list(strips(model)),
        "schedules": [_facts(schedule) for schedule in model.schedules],
        "resources": [
            [of.schedules[0].facts["unit"], [_facts(schedule) for schedule in of.schedules]]
            for of in model.resources
            if model.further
        ],
        "words": {},
    }
    if any(
        schedule.jobs["part"].null_count() < schedule.jobs.height for schedule in model.schedules
    ):
        writer.count("part", np.nan_to_num(_of_either(model, "part")).astype(np.int64))
    _write_names(model, writer, facts)
    for name in _TEXTS:
        _write_words(model, name, writer, facts)
    times[0, "submit_s"] = _of_either(model, "submit_s")
    for i in several:
        _write_times(i, {name: times[i, name] for name in _TIMES}, writer, _absent(model, i))
        writer.rows(f"refused{i}", _refused(model, i))
        for k, of in enumerate(model.resources):
            _write_rectangles(of, i, f"_{k}" if k else "", writer)
    writer.time("requested", np.nan_to_num(asked), "")
    writer.rows("unasked", np.isnan(asked))
    return text_of(facts, writer.columns)


def _write_rectangles(model: Model, i: int, suffix: str, writer: _Writer) -> None:
    """Write what the jobs of a schedule hold of a resource, and their rectangles."""
    amounts = np.nan_to_num(model.spread(i, "processors")).astype(np.int64)
    writer.count(f"amount{i}{suffix}", amounts, f"amount{i - 1}{suffix}" if i else "")
    drawn = model.rectangles[i]
    rows = model.rows[i][drawn.job]
    order = np.lexsort((drawn.low, rows))
    writer.count(f"rect{i}{suffix}", rows[order], "previous")
    writer.count(f"low{i}{suffix}", drawn.low[order])
    writer.count(f"cut{i}{suffix}", (amounts[rows] - drawn.height)[order])


def _write_times(
    i: int, times: Mapping[str, NDArray[np.float64]], writer: _Writer, absent: NDArray[np.bool_]
) -> None:
    """Write the times of a schedule; the second one's differ little from the first one's."""
    submit, eligible, start, end, wait = (times[name] for name in _TIMES)
    if i:
        bases = ("submit0", "eligible0 submit1 -submit0", "start0", "end0 start1 -start0")
    else:
        bases = ("previous", "submit0", "eligible0", "start0")
    names = [f"{name}{i}" for name in ("submit", "eligible", "start", "end")]
    for name, values, base in zip(names, (submit, eligible, start, end), bases, strict=True):
        writer.time(name, values, base)
    writer.time(f"wait{i}", wait, f"start{i} -eligible{i}")
    writer.rows(f"absent{i}", absent)
    writer.rows(f"never{i}", ~absent & np.isnan(start))
    writer.rows(f"uncounted{i}", ~np.isnan(start) & np.isnan(wait))


def _absent(model: Model, which: int) -> NDArray[np.bool_]:
    absent = np.ones(model.count, dtype=np.bool_)
    absent[model.rows[which]] = False
    return absent


def _refused(model: Model, which: int) -> NDArray[np.bool_]:
    """Return the rows of jobs that were refused, or never came."""
    found = np.zeros(model.count, dtype=np.bool_)
    found[model.rows[which]] = refused(model.schedules[which])
    return found


def _of_either(model: Model, name: str) -> NDArray[np.float64]:
    """Return a number of each job, of the first schedule that knows it."""
    found = model.spread(0, name)
    for i in range(1, len(model.schedules)):
        found = np.where(np.isnan(found), model.spread(i, name), found)
    return found


def _texts(model: Model, name: str) -> list[str | None]:
    """Return a text of each job, of the last schedule that knows it."""
    found: list[str | None] = [None] * model.count
    for schedule, rows in zip(model.schedules, model.rows, strict=True):
        for row, text in zip(rows.tolist(), schedule.jobs[name].to_list(), strict=True):
            found[row] = text if text is not None else found[row]
    return found


def _write_names(model: Model, writer: _Writer, facts: dict[str, Any]) -> None:
    """Write names as numbers if all are whole numbers in the usual spelling."""
    names = _texts(model, "name")
    if not any(name is not None for name in names):
        return
    numbers = [int(n) if n is not None and n.isdecimal() and len(n) < 16 else -1 for n in names]
    if all(str(number) == name for number, name in zip(numbers, names, strict=True)):
        writer.count("name", np.array(numbers, np.int64), "previous")
    else:
        facts["names"] = names


def _write_words(model: Model, name: str, writer: _Writer, facts: dict[str, Any]) -> None:
    texts = _texts(model, name)
    words = list(dict.fromkeys(text for text in texts if text is not None))
    if words:
        number = {word: i for i, word in enumerate(words, start=1)}
        writer.count(
            name, np.array([0 if text is None else number[text] for text in texts], np.int64)
        )
        facts["words"][name] = words


def _facts(schedule: Schedule) -> dict[str, Any]:
    """Return what the page has to know of a schedule."""
    facts, name = schedule.facts, schedule.resources[0]
    return {
        "policy": facts["policy"],
        "from": facts["from_s"],
        "to": facts["to_s"],
        "rows": schedule.capacity,
        "capacity": facts["capacity"][name],
        "per_unit": facts["per_unit"].get(name, 1),
        "levels": facts["levels"].get(name, []),
        "machines": facts["machines"][name] if schedule.on_machines else [],
        "machine": facts["machine"],
    }
