"""The contents of the page of `hindcast whatif`, and its findings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.evaluation.evaluate import Job
from hindcast.pipeline.recipes.recipe import TraceSource
from hindcast.pipeline.report.whatif import numbers as n
from hindcast.pipeline.report.whatif import plan as planning
from hindcast.pipeline.report.whatif import words
from hindcast.pipeline.report.whatif.fidelity import Fidelity, fidelity
from hindcast.pipeline.report.whatif.jobs import by_group, counted_jobs, groups
from hindcast.pipeline.report.whatif.nearness import nearness
from hindcast.pipeline.scenarios.queue.instances import read_log
from hindcast.pipeline.workloads.schema import Workload

WINDOWS, BEFORE, RUN = "evaluation", "before", "run"  # folders of evaluations
_WEEK_S: Final = 7 * 86_400


@dataclass(frozen=True)
class Material:
    """Everything that the page is made of, beside the evaluations in its folder.

    Attributes:
        log: Path of the log.
        source: Its format and settings.
        workload: Its jobs.
        plan: How it is split.
        job: The run of the test part.
        played: Wait and bounded slowdown of every job of the run, by policy.
        strict: The same under order of arrival without backfilling.
        training: What `--train` did, or None.
        commands: Command that gives each evaluation, by its folder.
        command: The command line.
    """

    log: Path
    source: TraceSource
    workload: Workload
    plan: planning.Plan
    job: Job
    played: Mapping[str, pl.DataFrame]
    strict: pl.DataFrame
    training: Mapping[str, Any] | None
    commands: Mapping[str, str]
    command: str


@dataclass(frozen=True)
class Story:
    """Numbers and sentences of the page.

    Attributes:
        cast: The policies with a part.
        windows: Scores on the test windows.
        run: Scores of the test part as one run.
        table: Rows of whatif.csv.
        groups: Rows of groups.csv.
        jobs: The J counted jobs of the run.
        processors: Processors of the machine.
        span_s: Seconds from the beginning of the run to its last submission.
        waits: Unit of all waits on the page.
        weeks: Mean wait in that unit of the jobs of each week, (W,), by policy.
        near: Grade of the simulated machine.
        beside: The log beside its replay, order of arrival and EASY; None without starts.
        main: The agent against the best rule after the fact, or the rule that was best before
            against `other`: in the run, or on the windows if the run has no intervals.
        side: The same in the other of the two.
        unit: Block of `main`: week (of the run) or window.
        conclusion: What can be concluded.
        details: Sentences behind it.
        starvation: Sentences about tails, wide and long jobs.
        losers: Sentences about groups that wait longer.
        missing: Sentences about fields that the log lacks.
        surer: Sentences about the data that would make comparisons surer.
    """

    cast: n.Cast
    windows: n.Scope
    run: n.Scope
    table: pl.DataFrame
    groups: pl.DataFrame
    jobs: pl.DataFrame
    processors: int
    span_s: float
    waits: words.WaitUnit
    weeks: Mapping[str, NDArray[np.float64]]
    near: words.Nearness
    beside: Fidelity | None
    main: n.Pair
    side: n.Pair
    unit: str
    conclusion: str
    details: tuple[str, ...]
    starvation: tuple[str, ...]
    losers: tuple[str, ...]
    missing: tuple[str, ...]
    surer: tuple[str, ...]


def read_cast(out: Path) -> n.Cast:
    """Return the policies with a part, from the evaluations in the folder of a page."""
    before, run = (n.read_scope(out / folder) for folder in (BEFORE, RUN))
    return n.cast_of(before, run, planning.RECORDED, planning.RULES[0])


def tell(material: Material, out: Path) -> Story:
    """Return the numbers and sentences of the page, from the evaluations in its folder."""
    windows, run = (n.read_scope(out / folder) for folder in (WINDOWS, RUN))
    cast = read_cast(out)
    log, jobs = read_log(material.workload), counted_jobs(material.job)
    processors = log.processors
    kinds = groups(jobs, processors)
    shown = {name: material.played[name] for name in cast.shown}
    table = by_group(jobs, material.played, kinds)
    waits = words.wait_unit(max(run.means[name][n.WAIT].value for name in cast.shown))
    near, beside = words.Nearness(""), None
    if cast.recorded is not None:
        easy = material.played[cast.plain]["wait_s"].to_numpy()
        schedules = {
            "replay": material.played[cast.recorded]["wait_s"].to_numpy(),
            planning.STRICT: material.strict["wait_s"].to_numpy(),
            cast.plain: easy,
        }
        near = nearness(log, schedules["replay"], easy)
        begin = int(log.submit[material.plan.test_first])
        beside = fidelity(log, jobs, begin, schedules, kinds, waits)
    # A rule that was chosen in advance may be a bad one here: an agent must beat the best one.
    first, second = (cast.agent, cast.rule_after) if cast.agent else (cast.rule, cast.other)
    # A run of less than four weeks has no intervals; the windows have.
    scopes = {"week": run, "window": windows}
    if not n.pair_of(run, first, second).has_interval:
        scopes = {"window": windows, "week": run}
    (unit, main), (_, side) = (
        (name, n.pair_of(scope, first, second)) for name, scope in scopes.items()
    )
    wait = n.pair_of(scopes[unit], first, second, n.WAIT)
    span_s = float(log.submit[-1] - log.submit[material.plan.test_first])
    weekly = len(jobs) / max(span_s / _WEEK_S, 1.0)
    return Story(
        cast=cast,
        windows=windows,
        run=run,
        table=n.rows(windows, run, cast),
        groups=table,
        jobs=jobs,
        processors=processors,
        span_s=span_s,
        waits=waits,
        weeks=_weeks(jobs, shown, waits.size_s),
        near=near,
        beside=beside,
        main=main,
        side=side,
        unit=unit,
        conclusion=words.conclusion(cast, main, near, run),
        details=tuple(words.details(wait, side, run, cast, unit, waits)),
        starvation=tuple(words.starvation(cast, run, waits)),
        losers=tuple(words.losers(cast, table, waits)),
        missing=tuple(words.missing_fields(material.workload)),
        surer=tuple(words.surer(list(_pairs(cast, windows, run)), weekly)),
    )


def _pairs(cast: n.Cast, windows: n.Scope, run: n.Scope) -> Iterator[tuple[str, n.Pair]]:
    """Yield the comparisons that the page speaks of: agent and rule, rule and EASY, the record."""
    wanted = [(cast.agent, cast.rule_after), (cast.rule, cast.other), (cast.rule, cast.recorded)]
    for policy, reference in wanted:
        if policy and reference and policy != reference:
            yield "week", n.pair_of(run, policy, reference)
            yield "window", n.pair_of(windows, policy, reference)


def _weeks(
    jobs: pl.DataFrame, played: Mapping[str, pl.DataFrame], size_s: float
) -> dict[str, NDArray[np.float64]]:
    """Return the mean wait of the jobs of each week in units of some seconds, (W,), by policy."""
    week = jobs["week"].to_numpy()
    counts = np.bincount(week)
    with np.errstate(invalid="ignore"):
        return {
            name: np.bincount(week, values["wait_s"].to_numpy()) / counts / size_s
            for name, values in played.items()
        }
