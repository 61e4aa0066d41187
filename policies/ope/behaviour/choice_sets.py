"""Choice sets: the candidates of each recorded choice, and which of them was chosen.

From a log of `queue`, a choice is the start of a job, at its logged second: the candidates are the
waiting jobs that fit. From a dataset of `queue`, it is a decision that starts a job. Both take the
moment of a start as given: holds and limits explain most delays, and no log shows them. From a
dataset of another scenario, such as an imported history, every decision is a choice among its
feasible candidates.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.queue.instances import Log
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.ope.behaviour.logged_starts import FEATURES, NEW_S, read_starts
from hindcast.policies.ope.episodes import WholeEpisodes

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_DAY_S: Final = 86_400
_QUEUES: Final = 5  # indicators at most; a queue beyond them counts as the most frequent one
# Columns of the rows of `queue` that a model of a dataset uses.
_COLUMNS: Final = (
    "log_waited", "log_requested", "log_processors", "log_predicted", "user_running",
    "user_waiting", "safe", "share_of_free", "first_of_user",
)  # fmt: skip


@dataclass(frozen=True)
class ChoiceSets:
    """S choices among V candidates in all, in order of time.

    Attributes:
        names: Names of the F features.
        rows: Features of the candidates, (V, F).
        offsets: Candidates of choice s are the rows offsets[s] to offsets[s + 1], (S + 1,).
        chosen: Row of the candidate that was chosen, (S,).
        cluster: Number of the day or the episode of each choice; choices of one cluster are not
            taken as independent, (S,).
        place: Number of each choice among all recorded ones, ascending, (S,).
    """

    names: tuple[str, ...]
    rows: Array
    offsets: Ints
    chosen: Ints
    cluster: Ints
    place: Ints

    def __len__(self) -> int:
        return len(self.chosen)

    def part(self, first: int, stop: int) -> "ChoiceSets":
        """Return the choices first to stop."""
        start, end = int(self.offsets[first]), int(self.offsets[stop])
        return replace(
            self, rows=self.rows[start:end], offsets=self.offsets[first : stop + 1] - start,
            chosen=self.chosen[first:stop] - start, cluster=self.cluster[first:stop],
            place=self.place[first:stop],
        )  # fmt: skip

    def column(self, name: str) -> Array:
        """Return a feature of all candidates, (V,)."""
        return self.rows[:, self.names.index(name)]


def choices_of_log(log: Log, starts: Ints) -> ChoiceSets:
    """Return the choice sets of some starts of a log: their numbers in order of time.

    Starts with a single candidate are no choices and are left out. Raises InputError if the log
    does not say when jobs started.
    """
    if not log.has_starts:
        raise InputError(
            "a behaviour model needs the starts of the jobs, but this log does not say when jobs "
            "started (all waits are -1)"
        )
    rows, offsets, chosen, place, seconds = read_starts(log, starts)
    names, rows = _with_queues(FEATURES, rows)
    angle = 2.0 * np.pi * (seconds % _DAY_S) / _DAY_S
    names, rows = _with_places(names, rows, offsets, np.stack([np.sin(angle), np.cos(angle)], 1))
    return ChoiceSets(names, rows, offsets, chosen, seconds // _DAY_S, place)


def choices_of_episodes(episodes: WholeEpisodes, spec: Spec) -> ChoiceSets:
    """Return the choice sets of the decisions of a dataset.

    Decisions with a single candidate are left out. In `queue`, those that wait or give a job the
    reservation are left out too, and the candidates are the feasible jobs that fit. In other
    scenarios, the features are the columns of the candidates that are known and not identifiers.
    """
    rows, may = starting(episodes, spec)
    sizes = np.add.reduceat(may.astype(np.int64), episodes.rows[:-1])
    keep = (sizes > 1) & may[episodes.chosen]
    inside = np.repeat(keep, np.diff(episodes.rows)) & may
    numbers = np.cumsum(inside) - 1  # place of a candidate among the kept ones
    offsets = np.concatenate([[0], np.cumsum(sizes[keep])])
    chosen = numbers[episodes.chosen[keep]]
    episode = np.repeat(np.arange(len(episodes)), np.diff(episodes.offsets))[keep]
    place = np.flatnonzero(keep)
    if spec.scenario != "queue":
        names, table = _columns_of(rows[inside], spec)
        return ChoiceSets(names, table, offsets, chosen, episode, place)
    waited = np.exp(rows[:, spec.column("log_waited")].astype(np.float64)) - 60.0
    columns = [rows[inside, spec.column(name)] for name in _COLUMNS]
    columns += [waited[inside] < NEW_S, rows[inside, spec.column("queue")]]
    table = np.stack(columns, axis=1).astype(np.float64)
    names, table = _with_queues((*_COLUMNS, "new", "queue"), table)
    day = [f.name for f in spec.context].index("day_sin")
    time = episodes.context[keep, day : day + 2].astype(np.float64)
    names, table = _with_places(names, table, offsets, time)
    return ChoiceSets(names, table, offsets, chosen, episode, place)


def starting(episodes: WholeEpisodes, spec: Spec) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the rows (V, F) of all decisions, and which of them are modelled choices, (V,).

    In `queue` these are the jobs that start if chosen; in other scenarios all feasible candidates.
    """
    rows = episodes.candidates
    if spec.scenario != "queue":
        return rows, episodes.feasible
    may = episodes.feasible & (rows[:, spec.column("fits")] > 0.0)
    if any(feature.name == "is_wait" for feature in spec.candidates):
        may &= rows[:, spec.column("is_wait")] == 0.0
    return rows, may


def _columns_of(rows: NDArray[np.float32], spec: Spec) -> tuple[tuple[str, ...], Array]:
    """Return the columns that are known everywhere, differ, and are no identifiers."""
    names = [
        feature.name
        for f, feature in enumerate(spec.candidates)
        if not feature.identifier and np.isfinite(rows[:, f]).all() and np.ptp(rows[:, f]) > 0.0
    ]
    at = [spec.column(name) for name in names]
    return tuple(names), rows[:, at].astype(np.float64)


def _with_queues(names: tuple[str, ...], rows: Array) -> tuple[tuple[str, ...], Array]:
    """Replace the number of the queue, the last column, with indicators of single queues.

    The most frequent queue has none: the others are compared with it. The share of candidates
    decides.
    """
    numbers = rows[:, -1]
    queues, counts = np.unique(numbers, return_counts=True)
    indicators = sorted(queues[np.argsort(-counts, kind="stable")][1 : _QUEUES + 1].tolist())
    columns = [rows[:, :-1], *((numbers == queue)[:, None] for queue in indicators)]
    return (*names[:-1], *(f"queue_{queue:g}" for queue in indicators)), np.hstack(columns)


def _with_places(
    names: tuple[str, ...], rows: Array, offsets: Ints, time: Array
) -> tuple[tuple[str, ...], Array]:
    """Add features of a candidate relative to its set, and its request times the time of day.

    `time` has the sine and the cosine of the time of day of each choice, (S, 2).
    """
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    order = np.arange(len(rows)) - np.repeat(offsets[:-1], sizes)
    share = np.repeat(sizes, sizes).astype(np.float64)
    requested = rows[:, names.index("log_requested")]
    waited = np.maximum(np.exp(rows[:, names.index("log_waited")]) - 60.0, 0.0)
    shorter = np.empty(len(rows))
    shorter[np.lexsort((requested, owner))] = order
    more = {
        "log_age": np.log(1.0 + waited),
        "log_slowdown": np.log(1.0 + waited / np.exp(requested)),
        "age_rank": order / share,
        "oldest": order == 0,
        "newest": order == share - 1,
        "request_rank": shorter / share,
        "shortest": shorter == 0,
        "requested_day_sin": requested * time[owner, 0],
        "requested_day_cos": requested * time[owner, 1],
    }
    return (*names, *more), np.column_stack([rows, *more.values()])
