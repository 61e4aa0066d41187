"""Forecasts of when waiting jobs start, from a log: what `start` and `decide` share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hindcast.flows.progress import note
from hindcast.flows.runs.whatif import reading, source_of
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.forecast.forecasts import Policy, simulated
from hindcast.pipeline.forecast.live import Starts, users_of
from hindcast.pipeline.forecast.plays import DRAWS, Past, past_of
from hindcast.pipeline.recipes.workload_source import INGESTED, load_source
from hindcast.pipeline.scenarios.queue.priorities import RULES
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.ingest import with_notes
from hindcast.pipeline.whatif.orders import policy_of
from hindcast.pipeline.whatif.record import Record, read_record
from hindcast.pipeline.workloads.schema import Workload

_PERCENTS: Final = ("50", "80", "95")


@dataclass(frozen=True)
class Source:
    """A log whose format is recognised."""

    log: str
    format: str | None = None
    settings: tuple[str, ...] = ()


def rule_of(name: str) -> Policy:
    """Return the order and mode of a rule; raise InputError if plays cannot follow it."""
    found = policy_of(name)
    if found is None:
        known = [f"{rule}{form}" for rule in RULES for form in ("", "_easy", "_greedy")]
        raise unknown_name("rule that plays can follow", name, [*known, "conservative"])
    return found


def log_of(request: Any) -> Workload:
    """Return the log of a request, with what its file notes of the moment of second 0."""
    source = source_of(request)
    workload = load_source(reading(source))
    if source.format == INGESTED:
        return workload
    return with_notes(workload, FORMATS[source.format].notes_on(location(request.log)))


def read(request: Any) -> tuple[Workload, Record]:
    """Return the log of a request and its record."""
    workload = log_of(request)
    if "gpus" in workload.tasks.columns and (workload.tasks["gpus"] > 0).any():
        note("forecasts of starts play processors alone: that jobs wait for GPUs is left out")
    return workload, read_record(workload)


def schedule_of(record: Record, policy: Policy, *, recorded: bool) -> Past:
    """Return the log with its own starts, or with those of a rule."""
    if not recorded:
        return simulated(record, policy)
    if not record.known.any():
        raise InputError("the log does not say when jobs started; leave out --recorded")
    return past_of(record)


def starts(
    request: Any, rule: str, *, recorded: bool = False, seed: int = 0, draws: int = DRAWS
) -> Starts:
    """Return what forecasts of a rule need, from the log of a request."""
    policy = rule_of(rule)
    workload, record = read(request)
    if not record.known.any():
        note("the log does not say when jobs started; its runs end when the rule would end them")
    schedule = schedule_of(record, policy, recorded=recorded)
    past = past_of(record) if record.known.any() else schedule
    zero = workload.provenance.second_zero
    return Starts(past, policy, users_of(workload), schedule, zero, recorded, seed, draws)


def text_of(answer: Mapping[str, Any]) -> Iterator[str]:
    """Return the forecasts of a state as lines; times are from now on."""
    name = f"state {answer['id']} at {answer['now']}" if "id" in answer else f"at {answer['now']}"
    count, now = answer["calibrated_on"], answer["now"]
    basis = f"calibrated on {count} forecasts of the {answer['schedule']} schedule"
    if not count:
        basis = "not calibrated: too few earlier jobs waited"
    yield f"{name}, under {answer['rule']}, {basis}"
    for job in answer.get("set_aside", ()):
        yield f"  set aside job {job['id']}: {job['reason']}"
    table = [["job", "starts in", *(f"{one} %" for one in _PERCENTS), "requested", "reservation"]]
    table += [
        [
            str(job["id"]), _span(job["median"], now),
            *(" to ".join(_span(one, now) for one in job[percent]) for percent in _PERCENTS),
            *(_span(job[key], now) for key in ("requested", "reservation")),
        ]
        for job in answer["jobs"]
    ]  # fmt: skip
    if answer["jobs"]:
        yield from aligned(table)


def _span(moment: int | None, now: int) -> str:
    """Return how long it is until a moment."""
    if moment is None:
        return ">14 d"
    seconds = moment - now
    if seconds < 60:
        return "now" if seconds == 0 else f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60}:{minutes % 60:02} h"
    return f"{minutes / 1440:.1f} d"


def aligned(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return rows as lines with columns, the first one on the left."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        yield f"  {'  '.join(cells).rstrip()}"
