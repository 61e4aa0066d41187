"""Sentences of the page of `hindcast whatif`."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import polars as pl

from hindcast.pipeline.pages.numbers import TimeUnit, count_of, percent, three_digits, time_unit
from hindcast.pipeline.report.whatif.material import (
    RECORDED,
    Material,
    log_means,
    mean_of,
    scheduler_wait,
)
from hindcast.pipeline.report.whatif.numbers import HEADLINE, WAIT, Pair, pair_of, ranking
from hindcast.pipeline.whatif import verdict as v
from hindcast.pipeline.whatif.closed import Closed
from hindcast.pipeline.whatif.grade import NO_GRADE

_LONGER: Final = 1.1  # times the wait of another policy that count as longer
_SLOWER_S: Final = 900.0  # seconds that count as longer
_HOPELESS: Final = 20  # times the log from which more of it is no advice
_IDLE: Final = 1.1  # mean bounded slowdown below which a log has next to no waits
_SMALL: Final = 0.005  # share of the work of a group that is worth a sentence
_HELD: Final = 0.01  # share of jobs that become eligible later, from which both waits are shown
_ORDERS: Final[Mapping[str, str]] = {
    "fcfs": "order of arrival",
    "sjf": "shortest request first",
    "saf": "smallest area (requested time x processors) first",
    "lxf": "largest slowdown first",
    "wfp3": "WFP3",
    "unicef": "UNICEF",
    "mine": "the scheduler of --mine",
}
_MODES: Final[Mapping[str, str]] = {
    "easy": "with EASY backfilling",
    "all": "with a reservation for every job",
    "none": "without backfilling",
}


def share(value: float) -> str:
    """Return a share as a percentage: `4.6 %`, `25 %`."""
    decimals = 0 if value >= 0.1 or value == 0 else 1
    return f"{100 * value:.{decimals}f} %"


def scheduler(name: str) -> str:
    """Return an order and a mode of the family of schedulers in words: `saf easy`."""
    order, _, mode = name.partition(" ")
    if order not in _ORDERS or mode not in {"", *_MODES}:
        return name
    return f"{_ORDERS[order]} {_MODES.get(mode, '')}".rstrip()


def served(material: Material) -> str:
    """Return by whom the log is served, as far as its starts say."""
    grade = material.grade
    if grade is None or not grade.nearest:
        return ""
    explained = share(grade.numbers["explained"])
    if grade.known:
        return f"Your log's starts are those of {scheduler(grade.known)} in {explained}."
    return (
        f"No known order explains more than {explained} of your log's starts; the nearest is "
        f"{scheduler(grade.nearest)}."
    )


def measurements(material: Material) -> dict[str, str]:
    """Return a sentence for every measurement of the grade that is below A, the worst first.

    With closed times, they are those of the record without them.
    """
    grade = material.grade
    if grade is None:
        return {}
    n = grade.numbers if grade.rest is None else grade.rest
    letters = grade.letters if grade.rest is None else grade.rest_letters
    kept = "a limit, a reservation or closed nodes keep a part of the machine from them"
    if material.partitions > 1:
        kept = (
            "a part of the machine is kept from them; "
            f"{count_of(material.partitions, 'partition')} are in the log"
        )
    fragmented = "" if material.resources is None else ", or nodes were fragmented"
    texts = {
        "over": (
            f"your jobs hold more {grade.worst} than the machine has in {share(n['over'])} of what "
            f"they hold; is the machine larger than {_had(material, grade.worst)}?"
        ),
        "open": (
            f"jobs wait while every waiting job fits ({share(n['open'])} of the waiting): {kept}"
            f"{fragmented}"
        ),
        "passed": (
            f"of {n['twins']:,.0f} pairs of equal jobs of one user, in {share(n['passed'])} the "
            "later one started first: holds, dependencies or arrays in reverse"
        ),
        "odd": (
            f"{share(n['odd'])} of the starts come out of nothing: holds or begin times{fragmented}"
        ),
        "reaction": (
            f"a job that comes when nobody waits, and that fits, waits {n['reaction']:,.0f} s"
        ),
        "idle": (
            f"jobs wait while {scheduler(grade.nearest)} would have started them "
            f"({share(n['idle'])} of the waiting)"
        ),
    }
    below = [name for name in texts if letters.get(name, "A") > "A"]
    return {name: texts[name] for name in sorted(below, key=letters.__getitem__, reverse=True)}


def _had(material: Material, name: str) -> str:
    """Return the capacity of a resource."""
    of = material.resources
    if of is None:
        return f"{material.processors:,}"
    amounts = of.capacity / of.units
    alike = [one == name or one.startswith(f"{name}:") for one in of.names]  # of all types
    return f"{amounts[alike].sum():,.10g}"


def failing(material: Material) -> str:
    """Return the measurement that makes a grade of C or D, in words; the first of the worst."""
    if material.grade is None or material.letter_of_run not in {"C", "D"}:
        return ""
    grade = material.grade
    if material.letter in {"A", "B"}:
        times = " and ".join(_span(material, time) for time in material.closed)
        return (
            f"{times} nothing started although every waiting job fitted, a reservation or a stop, "
            "and the run contains that time; --where chooses another run"
        )
    letters = grade.letters if grade.rest is None else grade.rest_letters
    return next(of for name, of in measurements(material).items() if letters[name] >= "C")


def moment(material: Material, second: float) -> str:
    """Return a moment of the log's clock in words."""
    if material.epoch_s is not None:
        at = datetime.fromtimestamp(material.epoch_s + second, UTC)
        return f"{at:%Y-%m-%d %H:%M} UTC"
    days, rest = divmod(int(second), 86_400)
    return f"day {days + 1}, {rest // 3600:02}:{rest // 60 % 60:02} (second {second:,.0f})"


def _span(material: Material, time: Closed) -> str:
    return f"from {moment(material, time.begin)} to {moment(material, time.end)}"


def closed_times(material: Material) -> Iterator[str]:
    """Yield a sentence for every closed time of the record."""
    for time in material.grade.closed if material.grade else ():
        yield (
            f"{v.sentence_of(_span(material, time))[:-1]} nothing started although every waiting "
            "job fitted: a reservation or a stop. "
            f"{count_of(time.jobs, 'job')} waited in it, {share(time.share)} of all such waiting; "
            "the grade is that of the rest."
        )


def held(material: Material) -> float:
    """Return the share of jobs of the run that became eligible after their submission."""
    return mean_of(material.jobs["held_s"] > 0)


def shows_both_waits(material: Material) -> bool:
    """Return whether the user's wait stands beside the scheduler's."""
    return held(material) > _HELD


def record(material: Material, unit: TimeUnit) -> Iterator[str]:
    """Yield sentences about the record and its replay."""
    if not material.cast.recorded:
        yield "The log does not say when jobs started: no record, no replay and no grade."
        return
    jobs, replay = material.jobs, material.replay
    unknown = jobs["recorded_wait_s"].null_count()
    if unknown:
        work = jobs["work"].to_numpy()
        left_out = work[jobs["recorded_wait_s"].is_null().to_numpy()].sum() / work.sum()
        yield (
            f"The waits of {unknown:,} of {count_of(jobs.height, 'job')} are unknown, "
            f"{share(left_out)} of the work; they are left out of every recorded mean."
        )
    if replay is not None and replay.late:
        delay = time_unit(replay.mean_delay_s).text(replay.mean_delay_s)
        yield (
            f"The replay starts {replay.late:,} of {count_of(replay.compared, 'job')} "
            f"({share(replay.late / max(replay.compared, 1))}) later than the log, since they did "
            f"not fit; the mean delay is {delay}."
        )
    elif replay is not None:
        yield f"The replay starts each of {count_of(replay.compared, 'job')} when the log does."
    if shows_both_waits(material):
        waits = mean_of(jobs["recorded_wait_s"])
        yield (
            f"{share(held(material))} of the jobs became eligible after their submission: the "
            f"user's mean wait is {unit.text(waits)}, the scheduler's "
            f"{unit.text(scheduler_wait(jobs))}."
        )


def idle(material: Material) -> Iterator[str]:
    """Yield that nearly no job waits, if so."""
    plain = material.cast.plain
    slowdown = material.run.value(plain)
    if slowdown < _IDLE:
        yield (
            f"Nearly no job waits: the mean bounded slowdown under {plain} is "
            f"{three_digits(slowdown)}, and 1 is no wait. There is little that a scheduler could "
            "change."
        )


def cautions(material: Material, told: v.Verdict, unit: TimeUnit) -> list[str]:
    """Return what limits every number of the page, the facts that forbid a conclusion first."""
    replay = material.replay
    found = [v.sentence_of(caveat.text) for caveat in told.disqualifiers]
    disqualified = {caveat.code for caveat in told.disqualifiers}
    if material.cast.recorded and (replay is None or replay.late):
        found += [text for text in record(material, unit) if text.startswith("The replay")]
    found += [text for text in record(material, unit) if "unknown" in text]
    others = (caveat for caveat in material.caveats if caveat.code not in disqualified)
    found += [v.sentence_of(caveat.text) for caveat in others]
    found += closed_times(material)
    if material.letter != NO_GRADE:
        found += [v.sentence_of(text) for text in measurements(material).values()]
        found += idle(material)
    said = told.sentence.lower()
    return [text for text in dict.fromkeys(found) if text.rstrip(".").lower() not in said]


def equal_policies(material: Material) -> Iterator[str]:
    """Yield sentences about policies that do the same, and about those that chance may order."""
    for same in material.identical:
        yield f"{v.listed(same)} start every job of the run in the same second."
    names = [name for name in material.run.values if name not in {RECORDED, *material.knowing}]
    ranks: dict[int, list[str]] = {}
    for name, rank in ranking(material.run, material.shaken, names).items():
        ranks.setdefault(rank, []).append(name)
    for rank, members in ranks.items():
        if len(members) > 1 and not any(set(members) <= set(of) for of in material.identical):
            yield (
                f"Equal at rank {rank}: {', '.join(members)}. Their differences to {members[0]} "
                "are within two standard deviations over the shakes."
            )


def agents(material: Material) -> Iterator[str]:
    """Yield what became of agents: how a delivered one does beside the best rules, refused ones."""
    cast = material.cast
    if cast.agent is not None:
        for scope, name, rule in (
            (material.run, "run", cast.best_run),
            (material.windows, "windows", cast.best_windows),
        ):
            if scope is None or rule is None or cast.agent not in scope.values:
                continue
            pair = pair_of(scope, cast.agent, rule)
            yield (
                f"{'In the run' if name == 'run' else 'On the windows'}, the delivered agent "
                f"{cast.agent} has {measured(pair)} than {rule}, the best rule there after the "
                "fact."
            )
    refused = [name for name, what in material.delivered.items() if what == "rule"]
    if refused:
        yield (
            f"{count_of(len(refused), 'agent')} refused: the gate of the training did not deliver "
            f"{', '.join(refused)}; the tables show what was refused."
        )


def measured(pair: Pair, what: str = "mean bounded slowdown") -> str:
    """Return a difference with its interval in words: `12 % less mean wait (95 % ...)`."""
    size = percent(abs(pair.share.value), signed=False)
    side = "less" if pair.share.value < 0 else "more"
    return f"{size} {side} {what} ({interval_of(pair)})"


def interval_of(pair: Pair) -> str:
    """Return the interval of a comparison as shares of the reference's mean."""
    if not pair.has_interval:
        return "no interval"
    low, high = pair.share.low, pair.share.high
    return f"95 % interval {percent(low)[:-2]} .. {percent(high)}"


def beside_known(material: Material) -> Iterator[str]:
    """Yield how the simulated row of the known scheduler compares with the log."""
    known, log = material.known, log_means(material)
    if known and known in material.played:
        theirs = material.jobs["recorded_wait_s"]
        differ = int((material.played[known]["wait_s"] != theirs).sum())
        yield (
            f"Simulated, {known} has a mean bounded slowdown of "
            f"{three_digits(material.run.value(known))}, the log {three_digits(log[HEADLINE])}; "
            f"{differ:,} of {count_of(len(theirs), 'start')} differ."
        )


def losers(material: Material, table: pl.DataFrame, unit: TimeUnit) -> Iterator[str]:
    """Yield the groups of jobs that wait longer under the candidate than under the scheduler."""
    cast = material.cast
    name, base = cast.candidate, cast.plain
    if cast.recorded and material.near:
        base = cast.recorded
    if name == base:
        return
    means = {
        (policy, kind, group): (mean, work)
        for policy, kind, group, mean, work in table.select(
            "policy", "kind", "group", "mean_wait_s", "work_share"
        ).iter_rows()
    }
    found = []
    for (policy, kind, group), (mean, work) in means.items():
        other = means.get((base, kind, group), (None,))[0]
        if policy != name or work < _SMALL or mean is None or other is None:
            continue
        if mean > _LONGER * other and mean - other > _SLOWER_S:
            named = f"{group} of the {kind}s" if group in {"rest", "unknown"} else group
            found.append(f"{named} ({unit.number(other)} to {unit.text(mean)})")
    text = ", ".join(found) if found else "no group shown here"
    yield f"Longer mean waits under {name} than under {base}, in the run: {text}."


def surer(material: Material) -> Iterator[str]:
    """Yield sentences about the data that would make comparisons surer."""
    cast = material.cast
    if material.letter_of_run in {"C", "D"}:
        yield (
            f"More weeks of this log do not help: its machine is another one (grade "
            f"{material.letter_of_run}). Mend that first: {failing(material)}."
        )
        return
    if material.letter == "-":
        yield "A time in which jobs wait: here nearly none does, whatever its length."
        return
    for caveat in material.disqualifiers:
        yield v.sentence_of(caveat.text)
    weekly = material.jobs.height / max(material.span_s / (7 * 86_400), 1.0)
    for scope, unit in ((material.run, "week"), (material.windows, "window")):
        opponent = cast.recorded or cast.aside
        if scope is None or not {cast.candidate, opponent} <= scope.values.keys():
            continue
        yield _surer(pair_of(scope, cast.candidate, opponent), unit, weekly)


def _surer(pair: Pair, unit: str, weekly: float) -> str:
    name = f"{pair.policy} beside {pair.reference}"
    if not pair.has_interval:
        if unit == "week":
            return f"{name}, in the run: less than four weeks give no interval; take a longer log."
        return f"{name}: fewer than four windows give no interval; take a longer log."
    half = f"{count_of(pair.for_half, f'further {unit}')} make the interval half as wide"
    if unit == "week":
        half += f" (about {pair.for_half * weekly:,.0f} jobs)"
    if pair.clear:
        return f"{name}: the interval excludes 0 already; {half}."
    if pair.to_tell is None or pair.to_tell > _HOPELESS * pair.blocks:
        return (
            f"{name}: more than {_HOPELESS} logs like this one would be needed to tell this "
            f"difference from 0; {half}."
        )
    told = count_of(pair.to_tell, f"further {unit}")
    return f"{name}: {told} would tell a difference of this size from 0; {half}."


def typical_wait(material: Material, names: Sequence[str]) -> TimeUnit:
    """Return the unit of all waits on the page."""
    waits = [material.run.value(name, WAIT) for name in names if name in material.run.values]
    return time_unit(max(waits, default=0.0))
