"""Run times that are learned as jobs complete, for the rules `aged_expected` and `wsept`.

For a job with requested time r the machine expects

    v = E[10 / max(run, 10)]     its weight in the mean bounded slowdown
    e = E[run]                   in s

Both are means over completed runs in four nested contexts. Each is shrunk toward the one before it,
as if the context had m more runs with that mean; and each forgets by a factor d with every run::

    context                                 m        d
    request: floor(2 log2 r)            39.89   0.9913
    user                                 3.1    0.5486
    user, requested time                 3.8    0.605
    user, processors, requested time    23.69   0.9763

    V, F = 0.1, 0.4;  for each context:  V, F = (SV + m V) / (N + m), (SF + m F) / (N + m)
    v = max(V, 10 / max(r, 10));  e = max(F r, 1)

    a run ends:  N = d N + 1;  SV = d SV + 10 / max(run, 10);  SF = d SF + min(run / r, 1)

A job of an unknown user has the first context alone. m and d were chosen by the loss of predictions
on the first 60 % of five logs of the Parallel Workloads Archive.

The contexts stand in one array, four numbers each: N, SV, SF, and the number of runs that have
ended in it. A job has the places of its four contexts, -1 where it has none. Runs enter in order of
their ends, and of their rows where they end in one second.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.instances import Log
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, compiled

Ints = NDArray[np.int64]

CONTEXTS: Final = 4  # of a job
NUMBERS: Final = 4  # of a context
RUNS: Final = 3  # place of the number of runs among them
LEVELS: Final = 126  # of the requested time: 2 log2 of the largest integer

DECAYS: Final = np.array([0.9913, 0.5486, 0.605, 0.9763])
SHRINKAGE: Final = np.array([39.89, 3.1, 3.8, 23.69])
WEIGHT: Final = 0.1  # v before any run
SHARE: Final = 0.4  # e / r before any run
_PAIR: Final = types.UniTuple(types.float64, 2)  # type: ignore[no-untyped-call]


@compiled(types.void(INTS, types.int64, FLOATS, types.int64, types.int64, types.int64))
def learn(places, at, sums, begin, run, requested):  # type: ignore[no-untyped-def]
    """Enter a completed run into its contexts: places[at:], in sums[begin:]."""
    weight, share = 10.0 / max(run, 10), min(run / requested, 1.0)
    for i in range(CONTEXTS):
        if places[at + i] >= 0:
            place, decay = begin + places[at + i], DECAYS[i]
            sums[place] = decay * sums[place] + 1.0
            sums[place + 1] = decay * sums[place + 1] + weight
            sums[place + 2] = decay * sums[place + 2] + share
            sums[place + RUNS] += 1.0


@compiled(types.void(INTS, FLOATS, types.int64, INTS, INTS))
def learn_all(places, sums, begin, run, requested):  # type: ignore[no-untyped-def]
    """Enter completed runs into their contexts, in this order."""
    for i in range(len(run)):
        learn(places, CONTEXTS * i, sums, begin, run[i], requested[i])


@compiled(types.float64(INTS, types.int64, FLOATS, types.int64))
def version_of(places, at, sums, begin):  # type: ignore[no-untyped-def]
    """Return a number that grows with every run that changes what a job is expected to do."""
    version = sums[begin + places[at] + RUNS]
    if places[at + 1] >= 0:
        version += sums[begin + places[at + 1] + RUNS]  # of the user, so of the other two as well
    return version


@compiled(_PAIR(INTS, types.int64, FLOATS, types.int64, types.int64))
def expect(places, at, sums, begin, requested):  # type: ignore[no-untyped-def]
    """Return ln v and ln e of a job."""
    weight, share = WEIGHT, SHARE
    for i in range(CONTEXTS):
        if places[at + i] >= 0:
            place, m = begin + places[at + i], SHRINKAGE[i]
            total = sums[place] + m
            weight = (sums[place + 1] + m * weight) / total
            share = (sums[place + 2] + m * share) / total
    weight = max(weight, 10.0 / max(requested, 10))
    return math.log(weight), math.log(max(share * requested, 1.0))


@dataclass(frozen=True)
class Contexts:
    """The contexts of some jobs, all numbers ascending.

    Attributes:
        users, requests, cpus: Users, requested times and processors.
        pairs: Numbers of users and requested times that occur together.
        keys: Numbers of these and processors that occur together.
    """

    users: Ints
    requests: Ints
    cpus: Ints
    pairs: Ints
    keys: Ints

    def places(self, user: Ints, cpu: Ints, requested: Ints) -> Ints:
        """Return the places of the contexts of jobs, (4 N,); -1 for those of no job here."""
        mantissa, exponent = np.frexp(requested.astype(np.float64))  # from 1/2 to before 1
        level = 2 * (exponent.astype(np.int64) - 1) + (mantissa > math.sqrt(0.5))
        of_user, pair, key = self._numbers(user, cpu, requested)
        begin, found = LEVELS, [level]
        for numbers, known in ((of_user, self.users), (pair, self.pairs), (key, self.keys)):
            found.append(np.where(numbers < 0, -1, begin + numbers))
            begin += len(known)
        places = np.stack(found, axis=1).reshape(-1)
        return np.where(places < 0, -1, NUMBERS * places)

    def empty(self) -> NDArray[np.float64]:
        """Return the contexts before any run."""
        size = LEVELS + len(self.users) + len(self.pairs) + len(self.keys)
        return np.zeros(NUMBERS * size)

    def _numbers(self, user: Ints, cpu: Ints, requested: Ints) -> tuple[Ints, Ints, Ints]:
        of_user, time = _among(self.users, user), _among(self.requests, requested)
        pair = _among(self.pairs, _code(of_user, time, self.requests))
        return of_user, pair, _among(self.keys, _code(pair, _among(self.cpus, cpu), self.cpus))


def contexts_of(user: Ints, cpu: Ints, requested: Ints) -> Contexts:
    """Return the contexts of jobs, (N,) each; user -1 if unknown."""
    users, requests, cpus = np.unique(user[user >= 0]), np.unique(requested), np.unique(cpu)
    pair = _code(_among(users, user), _among(requests, requested), requests)
    pairs = np.unique(pair[pair >= 0])
    key = _code(_among(pairs, pair), _among(cpus, cpu), cpus)
    return Contexts(users, requests, cpus, pairs, np.unique(key[key >= 0]))


def _among(numbers: Ints, values: Ints) -> Ints:
    """Return the place of each value among ascending numbers, -1 if it is not one of them."""
    if not len(numbers):
        return np.full(len(values), -1)
    at = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
    return np.where(numbers[at] == values, at, -1)


def _code(one: Ints, other: Ints, others: Ints) -> Ints:
    return np.where((one < 0) | (other < 0), -1, one * len(others) + other)


def learned(
    log: Log, now: int, user: Ints, cpu: Ints, requested: Ints
) -> tuple[Ints, NDArray[np.float64]]:
    """Return the places of the contexts of jobs, (4 N,), and the contexts at a time of a log.

    Args:
        log: The log; without starts nothing had been completed.
        now: The time.
        user, cpu, requested: Users (numbers in the log), processors and requested times, (N,).
    """
    known = contexts_of(user, cpu, requested)
    sums = known.empty()
    ended = log.by_end[: np.searchsorted(log.ends, now)]
    past = log.user[ended], log.cpu[ended], log.requested[ended]
    learn_all(known.places(*past), sums, 0, log.run[ended], past[2])
    return known.places(user, cpu, requested), sums
