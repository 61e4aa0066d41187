"""`hindcast start`: when the waiting jobs of a machine will start."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.flows.progress import progress
from hindcast.flows.runs.states import STDIN, parsed, texts_of
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.location import is_remote, location

_RULE: Final = "fcfs_easy"
_PERCENTS: Final = ("50", "80", "95")


@dataclass(frozen=True)
class Request:
    """Log, states of its machine, and the rule that the machine follows."""

    log: p.Folder = p.argument(
        "log of a batch system, mapping of a table (.toml), or ingested workload",
        metavar="LOG",
    )
    states: p.Folder = p.argument(
        "file of a state as JSON, or of many as JSON lines, as for `decide` (default: stdin)",
        default=STDIN, nargs="?", metavar="STATES",
    )  # fmt: skip
    rules: tuple[p.Name, ...] = p.option(
        f"rule of `queue` that starts jobs; several for --check (default: {_RULE})", default=(),
        flag="--rule", action="extend", metavar="RULE",
    )  # fmt: skip
    jobs: tuple[p.Override, ...] = p.option(
        "job that could be submitted now, each one alone; may be repeated", default=(),
        flag="--job", action="append", metavar="processors=N,requested=S,user=NAME",
    )  # fmt: skip
    at: int | None = p.option(
        "moment of the state on the clock of the log (default: its `now`, as such or since 1970)",
        default=None, metavar="SECONDS",
    )  # fmt: skip
    recorded: bool = p.option(
        "calibrate and check on the starts of the log, not on those that the rule would give it",
        default=False,
    )
    check: bool = p.option(
        "forecast jobs of the last 30 %% of the log instead, and say how good that was",
        default=False,
    )
    count: p.Count = p.option("jobs that --check forecasts", default=1500)
    draws: Annotated[int, p.Bounds("K", ge=1, le=10_000)] = p.option(
        "plays of the queue per state", default=60
    )
    seed: p.Seed = p.option("seed of the draws", default=0)
    out: p.Folder | None = p.option("new file for the table of --check", default=None,
                                    metavar="FILE.csv")  # fmt: skip
    format: p.Name | None = p.option(
        "format of the log (default: recognised by its first lines)", default=None, metavar="FORMAT"
    )
    settings: tuple[p.Override, ...] = p.option(
        "setting of the format's reader (TOML), such as processors=1024; may be repeated",
        default=(), flag="--set", action="append", metavar="KEY=VALUE",
    )  # fmt: skip


def check(request: Request) -> None:
    """Raise InputError for a log, rule, job or file that cannot be used."""
    from hindcast.pipeline.traces.first_look import no_such_file

    for place in (request.log, request.out):
        if place is not None and is_remote(location(place)):
            raise InputError(f"{place}: expected a place on this machine, not in an object store")
    if not location(request.log).exists():
        no_such_file(location(request.log), "a log of jobs")
    if request.check and (request.states != STDIN or request.jobs or request.at is not None):
        raise InputError("--check is about the log alone; leave out STATES, --job and --at")
    if request.out is not None and not request.check:
        raise InputError("--out is for the table of --check")
    if request.out is not None and location(request.out).exists():
        raise InputError(f"{request.out}: this file exists and is not overwritten")
    if len(request.rules) > 1 and not request.check:
        raise InputError("--rule: expected one rule; several are for --check")
    if request.states != STDIN and not location(request.states).is_file():
        raise InputError(f"{request.states}: no such file, expected states as JSON or JSON lines")
    from hindcast.flows.runs.starts import rule_of  # compiles the simulators
    from hindcast.flows.runs.whatif import source_of
    from hindcast.pipeline.forecast.live import parse_job

    source_of(request)
    for rule in request.rules:
        rule_of(rule)
    for text in request.jobs:
        parse_job(text)


def run(request: Request) -> dict[str, Any]:
    """Forecast the waiting jobs of all states, or check forecasts on the log."""
    if request.check:
        return {"checks": _check(request)}
    from hindcast.flows.runs.starts import starts
    from hindcast.pipeline.forecast.live import parse_job

    texts = list(texts_of(request.states))
    found = starts(
        request, (request.rules or (_RULE,))[0], recorded=request.recorded, seed=request.seed,
        draws=request.draws,
    )  # fmt: skip
    more = [parse_job(text) for text in request.jobs]
    return {"answers": [
        found.answer(parsed(text, where), more=more, at=request.at, where=where)
        for where, text in texts
    ]}  # fmt: skip


def _check(request: Request) -> list[dict[str, Any]]:
    """Return a row per rule and forecast, and write the table."""
    import polars as pl

    from hindcast.flows.runs.starts import read, rule_of, schedule_of
    from hindcast.pipeline.forecast.forecasts import check as check_forecasts
    from hindcast.pipeline.storage.files import write_text

    rows, record = list[dict[str, Any]](), read(request)[1]
    for rule in request.rules or (_RULE,):
        policy = rule_of(rule)
        schedule = schedule_of(record, policy, recorded=request.recorded)
        with progress(f"forecasts under {rule}") as tell:
            found = check_forecasts(
                schedule, policy, request.count, request.seed, draws=request.draws, tell=tell
            )
        for name, score in found.scores.items():
            rows.append({
                "log": location(request.log).name, "rule": rule,
                "starts": "recorded" if request.recorded else "simulated",
                "forecast": name, "jobs": found.jobs, "at_once": found.at_once,
                "loss_h": score.loss_h,
                **{f"coverage_{one}": score.coverage[int(one)] for one in _PERCENTS},
                **{f"width_{one}_h": score.width_h[int(one)] for one in _PERCENTS[1:]},
            })  # fmt: skip
    if request.out is not None:
        write_text(location(request.out), pl.DataFrame(rows).write_csv(float_precision=4))
    return rows


def show(result: Mapping[str, Any]) -> Shown:
    """Return the forecasts of every state as a table, or the checks."""
    if "checks" in result:
        return Shown(list(_check_lines(result["checks"])), result["checks"])
    from hindcast.flows.runs.starts import text_of

    lines = [line for answer in result["answers"] for line in text_of(answer)]
    return Shown(lines, result["answers"])


def _check_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Return the checks as lines, one table per rule."""
    from hindcast.flows.runs.starts import aligned

    for rule in dict.fromkeys(row["rule"] for row in rows):
        of_rule = [row for row in rows if row["rule"] == rule]
        one = of_rule[0]
        yield (
            f"{rule}, {one['starts']} starts: {one['jobs']:,} jobs of the last 30 % that did not "
            f"start at once ({one['at_once']:.0%} did)"
        )
        table = [["forecast", "loss, h", "50 %", "80 %", "95 %", "width 80 %, h", "width 95 %, h"]]
        for row in of_rule:
            shares = [f"{row[f'coverage_{percent}']:.1%}" for percent in _PERCENTS]
            widths = [f"{row[f'width_{percent}_h']:.1f}" for percent in _PERCENTS[1:]]
            table.append([row["forecast"], f"{row['loss_h']:.3f}", *shares, *widths])
        yield from aligned(table)


COMMANDS: Final = {"start": Command(
    "hindcast start KTH-SP2-1996-2.swf.gz state.json --rule saf_easy",
    Request,
    "A state is that of `hindcast decide`. The rule is played from the state on, 60 times, with\n"
    "run times of earlier jobs of the same users and the arrivals of earlier weeks. The intervals\n"
    "are calibrated on jobs of the log that waited, see the page 'When a job will start' of the\n"
    "documentation. --check says how often such intervals were right.",
)}  # fmt: skip
