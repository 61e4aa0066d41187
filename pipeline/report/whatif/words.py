"""Sentences of the page of `hindcast whatif`."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import polars as pl

from hindcast.pipeline.pages.numbers import count_of, write_number
from hindcast.pipeline.report.whatif.numbers import HEADLINE, WAIT, Cast, Pair, Scope, pair_of
from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads.schema import Workload

_LONGER: Final = 1.1  # times the wait of another policy that count as longer
_SLOWER_S: Final = 900.0  # seconds that count as longer
_STARVES: Final = 5.0  # times the longest wait of plain EASY from which a policy starves jobs
_HOPELESS: Final = 20  # times the log from which more of it is no advice
_IDLE: Final = 1.1  # mean bounded slowdown below which a log has next to no waits
_SMALL: Final = 0.005  # share of the work of a group that is worth a sentence

Verdict = Literal["win", "unclear", "loss"]


@dataclass(frozen=True)
class Nearness:
    """Distance of the simulated machine from the machine of the log.

    Attributes:
        grade: "A" (near) to "D" (far), or "" where the log does not say when jobs started.
        reasons: Reasons for the grade, in words.
        numbers: Measured numbers by name.
        grades: Grade of each of them.
    """

    grade: str
    reasons: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    grades: Mapping[str, str] = field(default_factory=dict)

    @property
    def near(self) -> bool:
        """True if differences to the record can be read as estimates."""
        return self.grade in {"A", "B"}


@dataclass(frozen=True)
class WaitUnit:
    """Unit of all waits on a page.

    Attributes:
        name: "h", "min" or "s".
        size_s: Its size in seconds.
    """

    name: str
    size_s: float

    def number(self, seconds: float) -> str:
        """Return a wait without the unit, for a column of waits."""
        return plain(seconds / self.size_s)

    def text(self, seconds: float) -> str:
        """Return a wait with the unit."""
        return f"{self.number(seconds)} {self.name}"


def wait_unit(typical_s: float) -> WaitUnit:
    """Return the largest unit of which a typical wait is at least a half."""
    for size_s, name in ((3600.0, "h"), (60.0, "min")):
        if typical_s >= size_s / 2:
            return WaitUnit(name, size_s)
    return WaitUnit("s", 1.0)


def plain(number: float) -> str:
    """Return a number without unit, with about three digits."""
    decimals = 0 if abs(number) >= 100 else 1 if abs(number) >= 10 else 2
    return write_number(number, decimals)


def percent(share: float) -> str:
    """Return a share as a signed percentage without decimals, with one below two."""
    return f"{write_number(100 * share, 1 if abs(share) < 0.02 else 0, signed=True)} %"


def interval_of(pair: Pair) -> str:
    """Return the interval of a comparison as shares of the reference's mean."""
    if not pair.has_interval:
        return "no interval"
    low, high = pair.share.low, pair.share.high
    return f"95 % interval {percent(low)[:-2]} .. {percent(high)}"


def verdict_of(pair: Pair) -> Verdict:
    """Return whether a policy is clearly better than its reference, clearly worse, or neither."""
    if not pair.clear:
        return "unclear"
    return "win" if pair.difference.value < 0 else "loss"


def _measured(pair: Pair, what: str) -> str:
    """Return a difference with its interval in words: `12 % less mean wait (95 % ...)`."""
    size = percent(abs(pair.share.value)).removeprefix("+")
    side = "less" if pair.share.value < 0 else "more"
    return f"{size} {side} {what} ({interval_of(pair)})"


def conclusion(cast: Cast, main: Pair, near: Nearness, run: Scope) -> str:
    """Return in one sentence what can be concluded.

    Args:
        cast: The policies with a part.
        main: The two policies of the conclusion, see `Story`.
        near: The grade of the simulated machine.
        run: The scores of the run.
    """
    told = {
        "win": f"{main.policy} does better than {main.reference}",
        "loss": f"{main.policy} does worse than {main.reference}",
        "unclear": f"{main.policy} and {main.reference} cannot be told apart",
    }[verdict_of(main)]
    text = f"On the simulated machine, {told}: {_measured(main, 'mean bounded slowdown')}"
    if cast.recorded is None:
        return f"{text}; nothing is known about the log's own scheduler, whose starts it lacks."
    if not near.near:
        return (
            f"{text}; how either compares with the log's own scheduler cannot be concluded, since "
            f"the simulated machine is not the log's (grade {near.grade})."
        )
    best = main.policy if verdict_of(main) == "win" else cast.rule
    pair = pair_of(run, best, cast.recorded)
    return (
        f"{text}; against the log's own scheduler {best} has {_measured(pair, 'of it')}, "
        f"{'an' if near.grade == 'A' else 'a rough'} estimate, since the simulated machine is near "
        f"the log's (grade {near.grade})."
    )


def details(
    wait: Pair, other_scope: Pair, run: Scope, cast: Cast, unit: str, waits: WaitUnit
) -> Iterator[str]:
    """Yield sentences behind the conclusion: waits, the other scope, starvation, the yardstick.

    Args:
        wait: The two policies of the conclusion, compared on the mean wait in its scope.
        other_scope: The same two compared on the slowdown in the other scope.
        run: The scores of the run.
        cast: The policies with a part.
        unit: Block of the scope of the conclusion: week (of the run) or window.
        waits: Unit of waits.
    """
    name, other = wait.policy, wait.reference
    if math.isfinite(wait.share.value):
        yield (
            f"Over {count_of(wait.blocks, unit)}, {name} has {_measured(wait, 'mean wait')} than "
            f"{other}."
        )
    place = f"On {count_of(other_scope.blocks, 'window')}" if unit == "week" else "As one run"
    measured = _measured(other_scope, "mean bounded slowdown")
    yield f"{place}, {name} has {measured} than {other}."
    for policy in dict.fromkeys((name, other)):
        longest = run.means[policy]["max_wait_s"].value
        plain_longest = run.means[cast.plain]["max_wait_s"].value
        if longest > _STARVES * plain_longest:
            yield (
                f"{policy} starves jobs: its longest wait is {waits.text(longest)}, that of "
                f"{cast.plain} {waits.text(plain_longest)}."
            )
    if run.means[cast.plain][HEADLINE].value < _IDLE:
        yield (
            f"Nearly no job waits: the mean bounded slowdown under {cast.plain} is "
            f"{plain(run.means[cast.plain][HEADLINE].value)}, and 1 is no wait. There is little "
            "that a scheduler could improve."
        )
    if cast.recorded is not None:
        ratios = [
            run.means[cast.plain][metric].value / max(run.means[cast.recorded][metric].value, 1e-9)
            for metric in (WAIT, HEADLINE)
        ]
        yield (
            f"As a yardstick: {cast.plain}, order of arrival with backfilling, has "
            f"{plain(ratios[0])} times the recorded mean wait on the simulated machine, and "
            f"{plain(ratios[1])} times the recorded mean bounded slowdown."
        )


def starvation(cast: Cast, run: Scope, waits: WaitUnit) -> Iterator[str]:
    """Yield sentences about the price of the best rule and agent: tails, wide and long jobs."""
    base = run.means[cast.plain]
    for name in dict.fromkeys(filter(None, (cast.rule, cast.agent))):
        if name == cast.plain:
            continue
        mine, worse = run.means[name], []
        for metric, words in (
            ("max_wait_s", "longest wait"), ("p99_wait_s", "p99 wait"),
            ("mean_slowdown_wide", "slowdown of wide jobs"),
            ("mean_slowdown_long", "slowdown of long jobs"),
        ):  # fmt: skip
            if mine[metric].value > _LONGER * base[metric].value:
                seconds = metric.endswith("_s")
                told = waits.text if seconds else plain
                worse.append(
                    f"{words} {told(mine[metric].value)} against {told(base[metric].value)}"
                )
        if worse:
            yield f"{name} pays for its mean, compared with {cast.plain}: {'; '.join(worse)}."
        else:
            yield (
                f"{name} has neither longer tails nor more slowdown of wide or long jobs than "
                f"{cast.plain} (by more than 10 %)."
            )


def losers(cast: Cast, groups: pl.DataFrame, waits: WaitUnit) -> Iterator[str]:
    """Yield sentences about the groups of jobs that wait longer under the best rule or agent."""
    means = {
        (policy, kind, group): (mean, share)
        for policy, kind, group, mean, share in groups.select(
            "policy", "kind", "group", "mean_wait_s", "work_share"
        ).iter_rows()
    }
    for name in dict.fromkeys(filter(None, (cast.rule, cast.agent))):
        if name == cast.plain:
            continue
        found = []
        for (policy, kind, group), (mean, share) in means.items():
            if policy != name or share < _SMALL:
                continue
            other = means[cast.plain, kind, group][0]
            if mean > _LONGER * other and mean - other > _SLOWER_S:
                found.append(f"{group} ({waits.number(other)} to {waits.text(mean)})")
        text = ", ".join(found) if found else "no group shown here"
        yield f"Longer mean waits under {name} than under {cast.plain}: {text}."


def missing_fields(workload: Workload) -> Iterator[str]:
    """Yield a sentence for every field that the log lacks, and what it would tell."""
    tasks = workload.tasks
    notes = " ".join(workload.provenance.notes)

    def known(name: str) -> float:
        if name not in tasks.columns or tasks.is_empty():
            return 0.0
        return 1.0 - tasks[name].null_count() / tasks.height

    if known("wait_s") == 0.0:
        yield (
            "Starts of jobs: without them the log's own scheduler has no row, runs begin with an "
            "empty machine, and the simulated machine cannot be compared with the real one."
        )
    if known("requested_s") == 0.0 or (tasks["requested_s"] == tasks["duration_s"]).all():
        yield (
            "Requested times: without them the run time stands for the request, so that every rule "
            "that reads it knows the future."
        )
    if known("user") == 0.0:
        yield "Users: without them there are no predictions from earlier jobs, and no fairness."
    if known("eligible_s") == 0.0:
        yield (
            "The time at which a job became eligible: holds and dependencies of users count as "
            "waits of the scheduler here."
        )
    queues = tasks["queue"].drop_nulls().n_unique() if "queue" in tasks.columns else 0
    if queues <= 1:
        yield "Queues or partitions: the log has one at most, so their limits cannot be seen."
    else:
        yield (
            f"Limits of the {queues} queues (processors, jobs per user, hours): the log names the "
            "queues but not their limits, and the simulated machine has none."
        )
    if cv.NO_SIZE in notes:
        yield "The size of the machine: it was taken from the jobs, so that it may be too small."
    yield (
        "Outages, reservations, limits per user and holds: no log of this kind has them; a "
        "scheduler that respects them looks slow beside one that need not."
    )


def surer(pairs: Sequence[tuple[str, Pair]], arrivals: float) -> Iterator[str]:
    """Yield sentences about the data that would make comparisons surer.

    Args:
        pairs: Name of a block (week, window) and a comparison.
        arrivals: Jobs that a week has.
    """
    for unit, pair in pairs:
        name = f"{pair.policy} against {pair.reference}"
        if not pair.has_interval:
            yield f"{name}: one {unit} gives no interval; the log must span four weeks at least."
            continue
        half = f"{count_of(pair.for_half, f'further {unit}')} make the interval half as wide"
        if unit == "week":
            half += f" (about {pair.for_half * arrivals:,.0f} jobs)"
        if pair.clear:
            yield f"{name}: the interval excludes 0 already; {half}."
        elif pair.to_tell is None or pair.to_tell > _HOPELESS * pair.blocks:
            yield (
                f"{name}: more than {_HOPELESS} logs like this one would be needed to tell this "
                f"difference from 0; {half}."
            )
        else:
            told = count_of(pair.to_tell, f"further {unit}")
            yield f"{name}: {told} would tell a difference of this size from 0; {half}."
