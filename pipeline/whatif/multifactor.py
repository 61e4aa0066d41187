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
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled

LARGEST: Final = 2.0**32 - 1.0  # of all priorities
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
    return min(max(math.floor((fixed + age) + fair), 1.0), 4294967295.0)


@compiled()
def age_factor(waited: int, max_age: float) -> float:
    """Return the factor of age of a job that has waited so many seconds."""
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
    return np.bincount(user, cpu * held_s, int(user.max()) + 1)


def resets(period: str, first: float, last: float, zone: tzinfo = UTC) -> Whole:
    """Return the moments from `first` to `last` at which PriorityUsageResetPeriod forgets usage.

    Usage is reset at local midnight: of every day, of Sundays, and of the first day of months,
    quarters and years. Moments are in s since 1970.
    """
    if period not in _RESET_ON:
        return np.zeros(0, np.int64)
    begin = datetime.fromtimestamp(first, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    end, moments = datetime.fromtimestamp(last, zone), []
    day = begin.replace(tzinfo=None)
    while day <= end.replace(tzinfo=None):
        if _RESET_ON[period](day):
            moment = math.ceil(day.replace(tzinfo=zone).timestamp())
            if first <= moment <= last:
                moments.append(moment)
        day += timedelta(days=1)
    return np.array(moments, np.int64)


_RESET_ON: Final = {
    "DAILY": lambda day: True,
    "WEEKLY": lambda day: day.weekday() == calendar.SUNDAY,
    "MONTHLY": lambda day: day.day == 1,
    "QUARTERLY": lambda day: day.day == 1 and day.month % 3 == 1,
    "YEARLY": lambda day: day.day == 1 and day.month == 1,
}
