"""Orders of `queue` by handicaps and by the usage of users, against its rules of learned run times.

    python -m docs.generate.queue_orders choose FOLDER            on train and validation jobs
    python -m docs.generate.queue_orders steady FOLDER            the same, the second question
    python -m docs.generate.queue_orders test FOLDER POLICY...    on the last 30 % of each log

print rows of docs/results/queue_orders.csv. FOLDER has the logs of the Parallel Workloads Archive.
docs/results/queue-orders.md has the candidates and the rule by which they are judged.

Numbers are means over shaken runs (hindcast.pipeline.whatif.shakes). Intervals: 2,000 draws of the
weeks of each run. The column `provenance` is the key of the record of this process, which is
printed to stderr for docs/results/provenance.json.
"""

import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.config import WIDE
from hindcast.pipeline.scenarios.queue.run_times import CONTEXTS, expect, learn, learned, version_of
from hindcast.pipeline.scenarios.queue.schedule import WEEK_S
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled
from hindcast.pipeline.storage.provenance import key_of, provenance
from hindcast.pipeline.traces import swf
from hindcast.pipeline.whatif.batch_systems.multifactor import decay, usage_before
from hindcast.pipeline.whatif.orders import (
    CHANGE,
    EASY,
    FILL,
    FILLED,
    HANDICAP,
    Mode,
    Order,
    Priorities,
    policy_of,
)
from hindcast.pipeline.whatif.outcomes import counted
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import Record, read_record
from hindcast.pipeline.whatif.run import Run, run_of
from hindcast.pipeline.whatif.shakes import shaken

Real = NDArray[np.float64]

LOGS: Final[Mapping[str, str]] = {
    "KTH SP2": "KTH-SP2-1996-2.swf.gz",
    "SDSC SP2": "SDSC-SP2-1998-4.2-cln.swf.gz",
    "CTC SP2": "CTC-SP2-1996-3.1-cln.swf.gz",
    "HPC2N": "HPC2N-2002-2.2-cln.swf.gz",
    "SDSC Blue": "SDSC-BLUE-2000-4.2-cln.swf.gz",
}
BASE: Final = "aged_expected_easy"
COMPARATORS: Final = (
    BASE, "wsept_easy", "aged_area_easy", "steady_area_easy", "lxf_easy", "saf_easy",
)  # fmt: skip
STEADY: Final = "steady_area_easy"
SECOND: Final = ("24 h ln(e n / sqrt v)", "24 h ln(e n (s + 0.05) / sqrt v), 7 d")
JOBS: Final = 20_000  # at most of a run on which candidates are chosen; the last tenth follows
DRAWS, REPORTED = 10, 5  # shaken runs, and those of the last 30 %
WORSE: Final = math.log(1.1)  # no log may be worse by more
LONGER: Final = 1.5  # nor have a longest wait that is so many times longer
LEVEL: Final = 0.99
WINDOW, FOLLOW, WINDOWS = 256, 1024, 40  # jobs of a window, jobs after it, windows of a log
RESAMPLES: Final = 2000
COLUMNS: Final = (
    "part", "log", "policy", "runs", "draws", "slowdown", "wait_h", "p99_wait_h",
    "longest_wait_h", "slowdown_wide", "ratio", "low", "high", "provenance",
)  # fmt: skip

_DAY_S: Final = 86400.0
_OWN: Final = 0.05  # share of the usage that is added to that of a user

# Forms of an order, with x = e n / v^g and the penalty c s + q ln(s + _OWN) of the share s of the
# user in the decayed usage of all.
_USAGE: Final = 0  # least usage
_HANDICAP: Final = 1  # least arrival + k e n
_LOG_HANDICAP: Final = 2  # least arrival + k h (ln x + penalty)
_AGED: Final = 3  # greatest ln(w + 1 day) - ln x - penalty


@dataclass(frozen=True)
class Form:
    """Parameters of an order, see above; `half_life` is in days."""

    form: int
    k: float = 0.0
    g: float = 0.0
    c: float = 0.0
    q: float = 0.0
    half_life: float = 7.0


# Memory of the compiled functions:
#   ints    header | per job (N each): user, processors, requested, run | places (4 N) | held (U)
#   floats  header | per job (N each): ln v, ln e, version | usage (U) | contexts
_JOBS, _USERS, _LAST, _FORM = range(4)
_INTS: Final = 4
_K, _G, _C, _Q, _HALF_LIFE = range(5)
_FLOATS: Final = 5


@compiled()
def _advance(ints: Ints, floats: Floats, now: int) -> None:
    """Move the usage of all users on to a moment."""
    jobs, users = ints[_JOBS], ints[_USERS]
    if now > ints[_LAST]:
        held_at, usage_at = _INTS + 8 * jobs, _FLOATS + 3 * jobs
        usage, held = floats[usage_at : usage_at + users], ints[held_at : held_at + users]
        decay(usage, held, now - ints[_LAST], floats[_HALF_LIFE])
        ints[_LAST] = now


@compiled(CHANGE)
def _change(ints, floats, now, job, sign):  # type: ignore[no-untyped-def]
    jobs, users = ints[_JOBS], ints[_USERS]
    _advance(ints, floats, now)
    ints[_INTS + 8 * jobs + ints[_INTS + job]] += sign * ints[_INTS + jobs + job]
    if sign < 0:
        begin = _FLOATS + 3 * jobs + users
        run, requested = ints[_INTS + 3 * jobs + job], ints[_INTS + 2 * jobs + job]
        learn(ints, _INTS + 4 * jobs + CONTEXTS * job, floats, begin, run, requested)


@compiled(FILL)
def _fill(ints, floats, now, jobs, arrive, priorities):  # type: ignore[no-untyped-def]
    size, users, form = ints[_JOBS], ints[_USERS], ints[_FORM]
    _advance(ints, floats, now)
    usage = floats[_FLOATS + 3 * size : _FLOATS + 3 * size + users]
    total, begin = max(usage.sum(), 1e-300), _FLOATS + 3 * size + users
    for place in range(len(jobs)):
        job = jobs[place]
        share = usage[ints[_INTS + job]] / total
        if form == _USAGE:
            priorities[place] = -share
            continue
        at, known = _INTS + 4 * size + CONTEXTS * job, _FLOATS + 2 * size + job
        version = version_of(ints, at, floats, begin)
        if version != floats[known]:
            v, e = expect(ints, at, floats, begin, ints[_INTS + 2 * size + job])
            floats[_FLOATS + job], floats[_FLOATS + size + job], floats[known] = v, e, version
        v, e = floats[_FLOATS + job], floats[_FLOATS + size + job]
        cpu = float(ints[_INTS + size + job])
        if form == _HANDICAP:
            priorities[place] = -(arrive[job] + floats[_K] * math.exp(e) * cpu)
            continue
        x = e + math.log(cpu) - floats[_G] * v
        x += floats[_C] * share + floats[_Q] * math.log(share + _OWN)
        if form == _LOG_HANDICAP:
            priorities[place] = -(arrive[job] + 3600.0 * floats[_K] * x)
        else:
            priorities[place] = math.log(max(now - arrive[job], 0) + _DAY_S) - x


def order_of_form(name: str, form: Form, record: Record) -> Order:
    """Return an order in runs of a record. A run begins with the usage of the record before it."""
    users = np.unique(record.user)
    half_life = form.half_life * _DAY_S

    def begin(run: Run) -> tuple[NDArray[np.int64], Real]:
        jobs, past = len(run.row), record.arrive < run.now
        held = np.searchsorted(users, record.user[past]), record.cpu[past]
        usage = np.zeros(len(users))
        if past.any():
            before = usage_before(
                run.now, record.start[past], record.run[past], held, half_life,
                int(record.arrive[0]),
            )  # fmt: skip
            usage[: len(before)] = before
        places, sums = learned(run.past.log, run.now, run.user, run.cpu, run.requested)
        ints = np.concatenate([
            [jobs, len(users), run.now, form.form], np.searchsorted(users, run.user), run.cpu,
            run.requested, run.run, places, np.zeros(len(users), np.int64),
        ])  # fmt: skip
        floats = np.concatenate([
            [form.k, form.g, form.c, form.q, half_life], np.full(3 * jobs, -1.0), usage, sums,
        ])  # fmt: skip
        return ints.astype(np.int64), floats

    return Order(name, FILLED, priorities=Priorities(begin, _fill, _change))


def _times_requested(k: float) -> Callable[[Run], Real]:
    return lambda run: run.requested.astype(np.float64) * run.cpu * k


_CLASSIC: Final = 20.0 * math.log(2.0)  # the factor 2^(-20 s)
FORMS: Final[Mapping[str, Form]] = {
    **{f"{k:g} e n": Form(_HANDICAP, k=k) for k in (1, 8, 64)},
    **{f"{k} h ln(e n)": Form(_LOG_HANDICAP, k=k) for k in (12, 24, 96)},
    **{f"{k} h ln(e n / sqrt v)": Form(_LOG_HANDICAP, k=k, g=0.5) for k in (12, 24, 96)},
    **{f"usage, {h} d": Form(_USAGE, half_life=h) for h in (1, 7, 14)},
    **{
        f"aged_expected x 2^(-20 s), {h} d": Form(_AGED, g=0.5, c=_CLASSIC, half_life=h)
        for h in (1, 7, 14)
    },
    **{
        f"aged_expected / (s + 0.05), {h} d": Form(_AGED, g=0.5, q=1.0, half_life=h)
        for h in (1, 7)
    },
    **{
        f"wsept x 2^(-20 s), {h} d": Form(_AGED, g=1.0, c=_CLASSIC, half_life=h) for h in (1, 7)
    },
    **{
        f"24 h ln(e n (s + 0.05) / sqrt v), {h} d": Form(
            _LOG_HANDICAP, k=24, g=0.5, q=1.0, half_life=h
        )
        for h in (1, 7)
    },
}  # fmt: skip
REQUESTED: Final = {f"{k:g} r n": k for k in (0.25, 2, 16)}
CANDIDATES: Final = (*REQUESTED, *FORMS)
FAMILIES: Final = {
    name: "usage" if name.startswith("usage") else "both" if " s" in name or "(s" in name
    else "handicap"
    for name in CANDIDATES
}  # fmt: skip


def policy(name: str, record: Record) -> tuple[Order, Mode]:
    """Return a candidate or a rule in runs of a record."""
    if name in FORMS:
        return order_of_form(name, FORMS[name], record), EASY
    if name in REQUESTED:
        return Order(name, HANDICAP, numbers=_times_requested(REQUESTED[name])), EASY
    found = policy_of(name)
    assert found is not None
    return found


def train_runs(record: Record) -> list[Run]:
    """Return the runs that end at 30 % and 60 % of a log."""
    size = len(record.submit)
    parts = [(0, 3 * size // 10), (3 * size // 10, 6 * size // 10)]
    return [_run_before(record, begin, end) for begin, end in parts]


def validation_runs(record: Record) -> list[Run]:
    """Return the run that ends at 70 % of a log."""
    size = len(record.submit)
    return [_run_before(record, 6 * size // 10, 7 * size // 10)]


def _run_before(record: Record, begin: int, end: int) -> Run:
    first = max(begin, end - JOBS)
    last = first + 9 * (end - first) // 10
    return run_of(record, first, last, follow=end - last)


def train_windows(record: Record) -> list[Run]:
    """Return windows before 60 % of a log, evenly spaced."""
    latest = 6 * len(record.submit) // 10 - WINDOW - FOLLOW
    starts = np.unique(np.linspace(0, latest, WINDOWS).astype(int) // WINDOW * WINDOW)
    return [run_of(record, int(one), int(one) + WINDOW, follow=FOLLOW) for one in starts]


def test_runs(record: Record) -> list[Run]:
    """Return the run of the last 30 % of a log."""
    return [run_of(record, 7 * len(record.submit) // 10)]


@dataclass(frozen=True)
class Score:
    """Means over the draws of one run under one policy.

    Attributes:
        slowdown: Sum of the bounded slowdowns of the jobs of each week, (W,).
        jobs: Their number, (W,).
        others: Mean wait, 99th percentile, longest wait in h, mean slowdown of wide jobs.
    """

    slowdown: Real
    jobs: Real
    others: Real


def score(run: Run, order: Order, mode: Mode, draws: int) -> Score:
    """Return the means over draws of a run; 0 draws: the run itself."""
    first, counted_rows = int(run.row[run.counted].min()), run.row[run.counted]
    week = np.full(int(run.row.max()) - first + 1, -1)  # of a row, whatever the draw
    week[counted_rows - first] = np.maximum(run.submit[run.counted] - run.now, 0) // WEEK_S
    sums, others = [], []
    for moved in [shaken(run, k) for k in range(draws)] or [run]:
        jobs = counted(moved, play(moved, order, mode))
        of = week[moved.row[jobs.job] - first]
        sums.append(np.bincount(of, jobs.slowdown))
        wide = moved.cpu[jobs.job] >= WIDE * run.processors
        waits = np.sort(jobs.wait) / 3600
        p99 = waits[(99 * len(waits) + 99) // 100 - 1]
        of_wide = jobs.slowdown[wide].mean() if wide.any() else math.nan
        others.append([waits.mean(), p99, waits[-1], of_wide])
    number = np.bincount(week[week >= 0]).astype(np.float64)
    return Score(np.mean(sums, axis=0), number, np.mean(others, axis=0))


Scores = Mapping[tuple[str, str], list[Score]]  # of (log, policy), by run


def play_all(
    records: Mapping[str, Record],
    runs_of: Callable[[Record], list[Run]],
    names: Iterable[str],
    draws: int,
) -> Scores:
    """Return the scores of policies on the runs of logs."""
    found = {}
    for log, record in records.items():
        runs = runs_of(record)
        for name in names:
            order, mode = policy(name, record)
            found[log, name] = [score(run, order, mode, draws) for run in runs]
            tell(f"{log}: {name}")
    return found


def _pooled(scores: Sequence[Score]) -> Score:
    """Return the windows of a log as one run whose weeks are the windows."""
    return Score(
        np.array([one.slowdown.sum() for one in scores]),
        np.array([one.jobs.sum() for one in scores]),
        np.nanmean([one.others for one in scores], axis=0),
    )


def _ratios(own: Sequence[Score], base: Sequence[Score], seed: int) -> tuple[float, Real]:
    """Return the mean over runs of the ln of a ratio of mean slowdowns, and its draws, (R,)."""
    values, replicates = [], []
    for at, (one, other) in enumerate(zip(own, base, strict=True)):
        weeks = len(one.slowdown)
        drawn = np.random.default_rng([seed, at]).multinomial(
            weeks, np.full(weeks, 1 / weeks), RESAMPLES
        )
        values.append(math.log(one.slowdown.sum() / other.slowdown.sum()))
        replicates.append(np.log(np.maximum(drawn @ one.slowdown, 1e-9))
                          - np.log(np.maximum(drawn @ other.slowdown, 1e-9)))  # fmt: skip
    return float(np.mean(values)), np.asarray(np.mean(replicates, axis=0))


@dataclass(frozen=True)
class Judged:
    """A policy against BASE on one part of the logs.

    Attributes:
        ratios: Mean over runs of the ln of the ratio of mean slowdowns by log.
        mean, low, high: Their mean and its interval.
        longer: Greatest ratio of the longest waits of a log.
    """

    ratios: Mapping[str, float]
    mean: float
    low: float
    high: float
    longer: float

    @property
    def better(self) -> bool:
        """True if the interval is below 0, and no log and no longest wait forbids it."""
        return self.high < 0 and max(self.ratios.values()) <= WORSE and self.longer <= LONGER


def judge(scores: Scores, name: str, logs: Sequence[str], base_name: str = BASE) -> Judged:
    """Return what a policy is worth on a part of the logs, against another one."""
    ratios, draws, longer = {}, [], 0.0
    for seed, log in enumerate(logs):
        own, base = scores[log, name], scores[log, base_name]
        ratios[log], replicates = _ratios(own, base, seed)
        draws.append(replicates)
        longest = [max(one.others[2] for one in of) for of in (own, base)]
        longer = max(longer, longest[0] / longest[1])
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(np.mean(draws, axis=0), tails)
    return Judged(ratios, float(np.mean(list(ratios.values()))), float(low), float(high), longer)


def rows(
    part: str, scores: Scores, draws: int, logs: Sequence[str], base: str = BASE
) -> list[list[str]]:
    """Return the rows of a part, with a row `all` for each policy; ratios are over `base`."""
    found = []
    for name in dict.fromkeys(name for _, name in scores):
        judged = judge(scores, name, logs, base)
        for log in logs:
            of = scores[log, name]
            slowdown = np.mean([one.slowdown.sum() / one.jobs.sum() for one in of])
            others = np.nanmean([one.others for one in of], axis=0)
            others[2] = max(one.others[2] for one in of)
            numbers = [slowdown, *others, math.exp(judged.ratios[log])]
            found.append([part, log, name, str(len(of)), str(draws), *_short(numbers), "", ""])
        ends = np.exp([judged.mean, judged.low, judged.high])
        found.append([part, "all", name, "", str(draws), *[""] * 5, *_short(ends)])
    return found


def _short(numbers: Iterable[float]) -> list[str]:
    return [f"{number:.4g}" for number in numbers]


def choose(records: Mapping[str, Record]) -> list[list[str]]:
    """Return the rows of all candidates; who survives is told to stderr."""
    logs = list(records)
    scores = play_all(records, train_runs, (*COMPARATORS, *CANDIDATES), DRAWS)
    table = rows("train", scores, DRAWS, logs)
    judged = {name: judge(scores, name, logs) for name in CANDIDATES}
    passed = sorted((one for one in judged if judged[one].better), key=lambda n: judged[n].mean)
    tell(f"clear on train: {passed}")
    names = (*COMPARATORS, *passed)
    by_window = play_all(records, train_windows, names, 0)
    windows = {key: [_pooled(of)] for key, of in by_window.items()}
    later = play_all(records, validation_runs, names, DRAWS)
    table += rows("windows", windows, 0, logs) + rows("validation", later, DRAWS, logs)
    confirmed = [
        name for name in passed
        if all(judge(part, name, logs).mean < 0 for part in (windows, later))
    ]  # fmt: skip
    tell(f"confirmed: {confirmed}")
    best = {FAMILIES[name]: name for name in reversed(confirmed)}
    tell(f"best of each kind: {best}")
    return table


def steady(records: Mapping[str, Record]) -> list[list[str]]:
    """Return the rows of the second question, which begin with the runs over STEADY."""
    logs, names = list(records), (BASE, STEADY, *SECOND)
    train = play_all(records, train_runs, names, DRAWS)
    later = play_all(records, validation_runs, names, DRAWS)
    by_window = play_all(records, train_windows, (BASE, *SECOND), 0)
    windows = {key: [_pooled(of)] for key, of in by_window.items()}
    both = {key: train[key] + later[key] for key in later}
    table = rows("train + validation", both, DRAWS, logs, STEADY)
    known = (BASE, STEADY)
    for part, scores, draws in (("validation", later, DRAWS), ("windows", windows, 0)):
        table += [row for row in rows(part, scores, draws, logs) if row[2] not in known]
    return table


def tell(line: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str]) -> None:
    """Print the rows that the arguments ask for."""
    what, folder, *names = arguments
    records = {log: read_record(swf.read(Path(folder) / file)[0]) for log, file in LOGS.items()}
    if what == "choose":
        table = choose(records)
    elif what == "steady":
        table = steady(records)
    else:
        scores = play_all(records, test_runs, (*COMPARATORS, *names), REPORTED)
        table = rows("test", scores, REPORTED, list(records))
    record = provenance()
    key = key_of(record)
    tell(f'"{key}": {json.dumps(record, indent=2)}')
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([*row, key] for row in table)


if __name__ == "__main__":
    main(sys.argv[1:])
