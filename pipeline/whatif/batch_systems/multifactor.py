"""Slurm's multifactor priority: factors of jobs, fair share, and usage that decays.

    priority = floor(((W_size F_size + W_part F_part) + W_age F_age) + W_fair F_fair - nice)

It is cut once, to at least 1 and at most 2^32 - 1; of equal priorities the earlier job is first.

Fair share knows a tree of accounts, whose leaves are the users; in a run the tree is flat, with
equal shares. Usage is in processor-seconds and is halved every half-life in continuous time, where
Slurm takes a step of 1 - .693 / half-life per second every PriorityCalcPeriod: after one half-life
it has .50007 left.

Source: priority_multifactor.c, fair_tree.c and doc/html/{priority_multifactor,classic_fair_share,
fair_tree}.shtml of Slurm.
"""

import calendar
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled
from hindcast.pipeline.whatif.batch_systems.slurm_conf import UNLIMITED, SlurmConf
from hindcast.pipeline.whatif.orders import (
    ALL,
    CHANGE,
    FILL,
    FILLED,
    STRICT,
    Mode,
    Order,
    Priorities,
    order_of,
)
from hindcast.pipeline.whatif.record import Record
from hindcast.pipeline.whatif.run import UNPLANNED, Run

LARGEST: Final = 2.0**32 - 1.0  # of all priorities, and seconds of an age without a limit
ROOT: Final = 0
NOBODY: Final = -1  # the user of an account

Whole = NDArray[np.int64]
Real = NDArray[np.float64]


@compiled()
def multifactor(fixed: float, age: float, fair: float) -> float:
    """Return the priority of a job from its weighted factors.

    Args:
        fixed: Weighted factors of size, partition and QOS, less `nice`.
        age: Weighted factor of age.
        fair: Weighted factor of fair share.
    """
    return min(max(math.floor((fixed + age) + fair), 1.0), LARGEST)


@compiled()
def age_factor(waited: int, max_age: float) -> float:
    """Return the factor of age of a job that has waited `waited` s; max_age in s."""
    return 1.0 if waited >= max_age else waited / max_age


@compiled()
def decay(usage: Floats, held: Ints, elapsed: int, half_life: float) -> None:
    """Move the usage of users on by some seconds, in which they hold the same processors.

    Args:
        usage: Usage of each user in processor-seconds, (U,); it is changed.
        held: Processors that each user holds, (U,).
        elapsed: The seconds.
        half_life: Half-life in s; 0 if usage does not decay.
    """
    kept, gained = 1.0, float(elapsed)
    if half_life > 0.0:
        kept = 2.0 ** (-elapsed / half_life)
        gained = half_life / math.log(2.0) * (1.0 - kept)
    for user in range(len(usage)):
        usage[user] = usage[user] * kept + held[user] * gained


@compiled()
def classic_factor(usage: float, total: float, users: int, dampening: float) -> float:
    """Return the classic factor of one of U users with equal shares; 1 without any usage."""
    return 1.0 if total <= 0.0 else 2.0 ** (-(usage / total * users) / dampening)


@compiled()
def tree_factors(usage: Floats, factors: Floats) -> None:
    """Fill the factors of Fair Tree of U users with equal shares, (U,).

    A factor is the share of the users who have at least the usage of this one.
    """
    users = len(usage)
    order = np.argsort(usage)
    first = 0
    for place in range(users):
        if usage[order[place]] != usage[order[first]]:
            first = place
        factors[order[place]] = (users - first) / users


def size_factor(
    cpu: Whole, nodes: Whole, requested: Whole, machine: tuple[int, int], form: tuple[bool, bool]
) -> Real:
    """Return the factor of size of N jobs, (N,).

    Args:
        cpu: Processors of each job, (N,).
        nodes: Nodes of each job, (N,).
        requested: Requested time of each job in s, (N,); limits are whole minutes, rounded up.
        machine: Processors and nodes of the machine.
        form: Whether small jobs are favoured, and whether size is relative to time.
    """
    processors, all_nodes = machine
    small, relative = form
    if relative:
        minutes = -(-requested // 60)
        x = np.maximum(cpu, nodes * processors / all_nodes) / minutes / processors
        return np.clip(1.0 - x if small else x, 0.0, 1.0)
    if small:
        cpu, nodes = processors - cpu, all_nodes - nodes
    return np.clip((nodes / all_nodes + cpu / processors) / 2.0, 0.0, 1.0)


@dataclass(frozen=True)
class ShareTree:
    """Accounts and users with their shares; entry 0 is the root, and parents precede children.

    Attributes:
        parent: Parent of each entry, (V,); -1 for the root.
        shares: Shares of each entry among its siblings, (V,).
        user: Number of the user of each entry, NOBODY for accounts, (V,).
    """

    parent: Whole
    shares: Real
    user: Whole

    def siblings(self, values: Real) -> Real:
        """Return the sum of values over each entry and its siblings, (V,)."""
        sums = np.zeros(len(values))
        np.add.at(sums, self.parent[1:], values[1:])
        return np.append(values[:1], sums[self.parent[1:]])

    def usage(self, of_users: Real) -> Real:
        """Return the usage of each entry from that of the users, (V,)."""
        found = np.where(self.user == NOBODY, 0.0, of_users[np.maximum(self.user, 0)])
        for entry in range(len(found) - 1, ROOT, -1):
            found[self.parent[entry]] += found[entry]
        return found


def classic_fair_share(tree: ShareTree, of_users: Real, dampening: float = 1.0) -> Real:
    """Return the classic factors of the users of a tree, (U,), from their usage, (U,)."""
    usage, of_siblings = tree.usage(of_users), tree.siblings(tree.shares)
    factors = np.ones(len(of_users))
    if usage[ROOT] <= 0.0:
        return factors
    own = usage / usage[ROOT]
    share, effective = np.ones(len(own)), own.copy()
    for entry in range(1, len(own)):
        above, part = tree.parent[entry], tree.shares[entry] / of_siblings[entry]
        share[entry] = share[above] * part
        if above != ROOT:
            effective[entry] = own[entry] + (effective[above] - own[entry]) * part
        if tree.user[entry] != NOBODY:
            ratio = effective[entry] / share[entry] if share[entry] > 0.0 else math.inf
            factors[tree.user[entry]] = 2.0 ** (-ratio / dampening)
    return factors


def levels(tree: ShareTree, of_users: Real) -> Real:
    """Return the level of each entry in Fair Tree: shares over usage, both among siblings, (V,)."""
    usage = tree.usage(of_users)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares, used = tree.shares / tree.siblings(tree.shares), usage / tree.siblings(usage)
        return np.where(usage > 0.0, np.nan_to_num(shares) / used, np.inf)


def fair_tree(tree: ShareTree, of_users: Real) -> Real:
    """Return the factors of Fair Tree of the users of a tree, (U,), from their usage, (U,).

    Siblings are visited from the greatest level on, depth first. Users of equal level share a rank;
    the entries of accounts of equal level are visited together.
    """
    level = levels(tree, of_users)
    children: list[list[int]] = [[] for _ in level]
    for entry in range(1, len(level)):
        children[tree.parent[entry]].append(entry)
    users = int((tree.user != NOBODY).sum())
    factors = np.zeros(len(of_users))
    rank, left = users, users

    def visit(entries: list[int], is_tied: bool) -> None:
        nonlocal rank, left
        # A user precedes an account of equal level.
        entries = sorted(entries, key=lambda e: (-level[e], tree.user[e] == NOBODY))
        place, before = 0, math.nan
        while place < len(entries):
            entry = entries[place]
            tied = is_tied if place == 0 else level[entry] == before
            before = level[entry]
            place += 1
            if tree.user[entry] != NOBODY:
                rank = rank if tied else left
                factors[tree.user[entry]] = rank / users
                left -= 1
                continue
            below = list(children[entry])
            while place < len(entries) and level[entries[place]] == before:
                below += children[entries[place]]
                place += 1
            visit(below, tied)

    visit(children[ROOT], is_tied=False)
    return factors


def usage_before(
    now: int, start: Whole, run: Whole, held: tuple[Whole, Whole], half_life: float, since: int
) -> Real:
    """Return the decayed usage of each user at a moment, (U,), from jobs that have started.

    Args:
        now: The moment in s.
        start: Recorded start of each job in s, NEVER if unknown, (N,).
        run: Run time of each job in s, (N,).
        held: Number of the user, 0 .. U - 1, and processors of each job, (N,) each.
        half_life: Half-life in s; 0 if usage does not decay.
        since: The last moment in s at which usage was reset; usage before it is forgotten.
    """
    user, cpu = held
    began = (start != NEVER) & (start < now)
    first = np.clip(np.where(began, start, now), since, now)
    last = np.clip(np.where(began, start + run, now), since, now)
    if half_life > 0.0:
        scale = half_life / math.log(2.0)
        held_s = scale * (np.exp2((last - now) / half_life) - np.exp2((first - now) / half_life))
    else:
        held_s = (last - first).astype(np.float64)
    usage: Real = np.bincount(user, cpu * held_s, int(user.max()) + 1).astype(np.float64)
    return usage


@dataclass(frozen=True)
class Clock:
    """The clock of a log.

    Attributes:
        unix_s: Moment of its second 0, in s since 1970.
        zone: Its time zone.
    """

    unix_s: int = 0
    zone: tzinfo = UTC

    def resets(self, period: str, first: float, last: float) -> Whole:
        """Return the moments at which PriorityUsageResetPeriod forgets usage, from `first` on.

        Usage is reset at local midnight: of every day, of Sundays, and of the first day of months,
        quarters and years. Moments are in s on the clock of the log, at most `last`.
        """
        moments: list[int] = []
        if period in _RESET_ON:
            day, end = (
                datetime.fromtimestamp(one + self.unix_s, self.zone).replace(tzinfo=None)
                for one in (first, min(last, first + _LONGEST_S))
            )
            day = day.replace(hour=0, minute=0, second=0, microsecond=0)
            while day <= end:
                if _RESET_ON[period](day):
                    moments.append(int(day.replace(tzinfo=self.zone).timestamp()) - self.unix_s)
                day += timedelta(days=1)
        return np.array([one for one in moments if first <= one <= last], np.int64)


_LONGEST_S: Final = 200.0 * 366 * 86_400  # of a log whose resets are listed
_RESET_ON: Final[dict[str, Callable[[datetime], bool]]] = {
    "DAILY": lambda _: True,
    "WEEKLY": lambda day: day.weekday() == calendar.SUNDAY,
    "MONTHLY": lambda day: day.day == 1,
    "QUARTERLY": lambda day: day.day == 1 and day.month % 3 == 1,
    "YEARLY": lambda day: day.day == 1 and day.month == 1,
}


@dataclass(frozen=True)
class Weights:
    """Parts of the priorities of a run.

    Attributes:
        age, fair: Weights of age and fair share.
        max_age_s: Wait in s at which the factor of age is 1.
        fair_tree: Whether fair share is Fair Tree, else the classic one.
        dampening: FairShareDampeningFactor.
        half_life_s: Half-life of usage in s; 0 if it does not decay.
        reset: PriorityUsageResetPeriod.
        accrue: Whether age counts from the submission, else from the moment of eligibility.
        fixed: Function of a run that returns the weighted factors that do not change, (N,).
    """

    age: int
    fair: int
    max_age_s: float
    fair_tree: bool
    dampening: int
    half_life_s: float
    reset: str
    accrue: bool
    fixed: Callable[[Run], Real]


# Memory of the compiled functions:
#   ints    header | per job (N each): user, processors, s waited on arrival | held (U) | resets (R)
#   floats  header | fixed (N) | usage (U) | factors (U)
_JOBS, _USERS, _LAST, _RESET, _IS_TREE = range(5)
_USER_AT: Final = 5
_AGE, _MAX_AGE, _FAIR, _DAMPENING, _HALF_LIFE = range(5)
_FIXED_AT: Final = 5


def multifactor_order(name: str, weights: Weights, record: Record, clock: Clock) -> Order:
    """Return the order of multifactor priority in runs of a record.

    The users are all of the record, with equal shares; jobs of unknown users are those of one. A
    run begins with the usage of the record before it.
    """
    users = np.unique(record.user)
    latest = float(record.arrive[-1] + record.run.sum())
    moments = clock.resets(weights.reset, float(record.arrive[0]), latest)

    def begin(run: Run) -> tuple[Whole, Real]:
        """Return the numbers of a run that `_fill` reads, with the usage at its beginning."""
        jobs = len(run.row)
        past = moments[moments <= run.now]
        held = np.searchsorted(users, record.user), record.cpu
        since = int(past[-1]) if len(past) else int(record.arrive[0])
        usage = usage_before(run.now, record.start, record.run, held, weights.half_life_s, since)
        waited = np.zeros(jobs, np.int64)
        if weights.accrue:
            waited = np.where(run.arrive == UNPLANNED, 0, run.arrive - run.submit)
        ints = np.concatenate([
            [jobs, len(users), run.now, 0, weights.fair_tree], np.searchsorted(users, run.user),
            run.cpu, waited, np.zeros(len(users), np.int64), moments[len(past) :],
        ])  # fmt: skip
        floats = np.concatenate([
            [weights.age, weights.max_age_s, weights.fair, weights.dampening, weights.half_life_s],
            weights.fixed(run), usage, np.zeros(len(users)),
        ])  # fmt: skip
        return ints.astype(np.int64), floats.astype(np.float64)

    return Order(name, FILLED, priorities=Priorities(begin, _fill, _change))


@compiled()
def _advance(ints: Ints, floats: Floats, now: int) -> None:
    """Move the usage of all users on to a moment, and forget it at resets on the way."""
    jobs, users = ints[_JOBS], ints[_USERS]
    held_at, usage_at = _USER_AT + 3 * jobs, _FIXED_AT + jobs
    held, usage = ints[held_at : held_at + users], floats[usage_at : usage_at + users]
    resets_at = held_at + users
    while resets_at + ints[_RESET] < len(ints) and ints[resets_at + ints[_RESET]] <= now:
        ints[_LAST] = max(ints[_LAST], ints[resets_at + ints[_RESET]])
        ints[_RESET] += 1
        usage[:] = 0.0
    if now > ints[_LAST]:
        decay(usage, held, now - ints[_LAST], floats[_HALF_LIFE])
        ints[_LAST] = now


def usage_shares(ints: Whole, floats: Real, now: int) -> tuple[Real, Whole]:
    """Return the share of each user in the usage of all at a moment, (U,), and users of jobs, (N,).

    The arrays are the memory that `multifactor_order` begins.
    """
    _advance(ints, floats, now)
    jobs, users = int(ints[_JOBS]), int(ints[_USERS])
    usage = floats[_FIXED_AT + jobs : _FIXED_AT + jobs + users]
    return usage / max(float(usage.sum()), 1e-300), ints[_USER_AT : _USER_AT + jobs]


@compiled(CHANGE)
def _change(ints, floats, now, job, sign):  # type: ignore[no-untyped-def]
    jobs = ints[_JOBS]
    _advance(ints, floats, now)
    ints[_USER_AT + 3 * jobs + ints[_USER_AT + job]] += sign * ints[_USER_AT + jobs + job]


@compiled(FILL)
def _fill(ints, floats, now, jobs, arrive, priorities):  # type: ignore[no-untyped-def]
    """Fill the priorities of the waiting jobs at a moment, (W,), from the arrays of `begin`."""
    size, users = ints[_JOBS], ints[_USERS]
    usage = floats[_FIXED_AT + size : _FIXED_AT + size + users]
    factors = floats[_FIXED_AT + size + users :]
    total, is_fair = 0.0, floats[_FAIR] > 0.0
    if is_fair:
        _advance(ints, floats, now)
        total = usage.sum()
        if ints[_IS_TREE] == 1:
            tree_factors(usage, factors)
    for place in range(len(jobs)):
        job = jobs[place]
        waited = max(now - arrive[job] + ints[_USER_AT + 2 * size + job], 0)
        fair = 0.0
        if is_fair:
            user = ints[_USER_AT + job]
            if ints[_IS_TREE] == 1:
                fair = factors[user]
            else:
                fair = classic_factor(usage[user], total, users, floats[_DAMPENING])
        priorities[place] = multifactor(
            floats[_FIXED_AT + job],
            floats[_AGE] * age_factor(waited, floats[_MAX_AGE]),
            floats[_FAIR] * fair,
        )


def slurm_mode(conf: SlurmConf) -> Mode:
    """Return which jobs may start before the first one that does not fit."""
    if not conf.backfill:
        return STRICT
    return Mode(conf.reserving or ALL, conf.tested)


def slurm_order(
    conf: SlurmConf, record: Record, clock: Clock, nice: Callable[[Run], Whole] | None = None
) -> Order:
    """Return the order of the settings of Slurm in runs of a record, named `mine`.

    Args:
        conf: The settings.
        record: The record.
        clock: Its clock, for PriorityUsageResetPeriod.
        nice: Function of a run that returns `nice` of each job, (N,); 0 if it is None.

    Raises:
        InputError: Partitions have a weight, and none of them is a queue or partition of the log.
    """
    if not conf.multifactor:
        first = order_of("fcfs")
        assert first is not None
        return replace(first, name="mine")
    partition, factors = _partition_factors(conf, record)
    all_nodes = len(frozenset().union(*(one.nodes for one in conf.partitions.values())))

    def fixed(run: Run) -> Real:
        nodes, machine = run.cpu, (run.processors, run.processors)
        if all_nodes:
            machine = run.processors, all_nodes
            each = -(-run.cpu * all_nodes // run.processors)
            nodes = np.where(run.nodes > 0, run.nodes, each)
        form = conf.favor_small, "SMALL_RELATIVE_TO_TIME" in conf.flags
        size = size_factor(run.cpu, nodes, run.requested, machine, form)
        part = factors[getattr(run, partition) + 1]
        weighted: Real = conf.weight_size * size + conf.weight_partition * part
        return weighted if nice is None else weighted - nice(run)

    weights = Weights(
        age=conf.weight_age, fair=conf.weight_fairshare,
        max_age_s=LARGEST if conf.max_age_s == UNLIMITED else float(conf.max_age_s),
        fair_tree="NO_FAIR_TREE" not in conf.flags, dampening=conf.dampening,
        half_life_s=float(conf.half_life_s), reset=conf.reset,
        accrue="ACCRUE_ALWAYS" in conf.flags, fixed=fixed,
    )  # fmt: skip
    return multifactor_order("mine", weights, record, clock)


def labels(record: Record, column: str) -> dict[str, int]:
    """Return the numbers in a column of a record, by their names where the log has names."""
    names = record.names.get(column, {})
    there = np.unique(getattr(record, column)).tolist()
    return {names.get(number, str(number)): number for number in there if number >= 0}


def unlisted_partitions(conf: SlurmConf, record: Record) -> list[str]:
    """Return a clause on partitions of a log that have jobs and no line, if partitions count."""
    if not conf.weight_partition:
        return []
    column, _ = _partition_factors(conf, record)
    missing = sorted(set(labels(record, column)) - set(conf.partitions))
    if not missing:
        return []
    return [f"no line PartitionName for {', '.join(missing)}: their PriorityJobFactor is 0"]


def _partition_factors(conf: SlurmConf, record: Record) -> tuple[str, Real]:
    """Return the column that has the partitions, and the factors of its numbers -1, 0, 1, ..

    It is the column `queue`, unless `partition` alone has one of the partitions of the file. A
    partition without a line has the factor 0.
    """
    columns = {name: labels(record, name) for name in ("queue", "partition")}
    column = max(columns, key=lambda one: bool(columns[one].keys() & conf.partitions.keys()))
    there = columns[column]
    factors = np.zeros(max(there.values(), default=-1) + 2)
    if not conf.weight_partition or not conf.partitions:
        return column, factors
    if not there.keys() & conf.partitions.keys() and any(columns.values()):
        raise InputError(
            f"{conf.path}: PriorityWeightPartition is {conf.weight_partition}, but no "
            f"PartitionName ({', '.join(conf.partitions)}) is a queue of the log; expected "
            f"{', '.join([*there][:20])}"
        )
    for name in there.keys() & conf.partitions.keys():
        factors[there[name] + 1] = conf.partitions[name].job_factor
    return column, factors / max(1, *(one.job_factor for one in conf.partitions.values()))
