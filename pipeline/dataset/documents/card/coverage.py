"""Coverage of a log: chosen positions, probabilities, and differences between behaviours.

One pass over the parts, a row group at a time, reads only the columns that are needed.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.part import open_part, part_errors
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.simulation.spec import Spec

_COLUMNS: Final = (
    "episode", "step", "choice", "feasible", "propensity", "behaviour_probabilities",
)  # fmt: skip

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coverage:
    """Counts over all decisions of a dataset.

    `spread` to `distinct` are None if probabilities were not recorded; `distinct` is also None if
    no window was met by two behaviours.

    Attributes:
        decisions: Number of decisions.
        candidates: Number of candidates, summed over decisions.
        feasible: Number of feasible candidates, summed over decisions.
        forced: Decisions with one feasible candidate.
        certain: Decisions with several feasible candidates of which one had probability 1.
        chosen: Times that each position was chosen: (P,).
        spread: Mean entropy of the probabilities of a decision, in nats.
        support: Mean share of the feasible candidates of a decision with probability > 0.
        smallest: Smallest propensity.
        distinct: Effective number of different behaviours, see `measure`.
        effective_behaviours: Number of behaviours that share the episodes equally with the same
            entropy.
    """

    decisions: int
    candidates: int
    feasible: int
    forced: int
    certain: int
    chosen: NDArray[np.int64]
    spread: float | None
    support: float | None
    smallest: float | None
    distinct: float | None
    effective_behaviours: float

    @property
    def positions(self) -> int:
        """Number of positions that were chosen at least once."""
        return int(np.count_nonzero(self.chosen))

    @property
    def entropy(self) -> float:
        """Entropy of the chosen position over all decisions, in nats."""
        return entropy(self.chosen)

    @property
    def effective_positions(self) -> float:
        """Number of positions that are chosen equally often with the same entropy."""
        return effective(self.chosen)

    @property
    def one_position(self) -> bool:
        """True if the same position was chosen in every decision."""
        return self.positions == 1 and self.forced < self.decisions

    @property
    def deterministic(self) -> bool:
        """True if one candidate had probability 1 in every decision with a choice."""
        choices = self.decisions - self.forced
        return self.spread is not None and choices > 0 and self.certain == choices


def measure(folder: Path, manifest: mf.Manifest, episodes: pl.DataFrame) -> Coverage:
    """Return the coverage of the parts of a dataset; DatasetError if they cannot be read.

    `distinct` compares behaviours on the same observation, which is the first observation with a
    choice in the episodes of a window. Behaviour b, with the share w_b of the episodes of the
    window, has the probabilities p_b there (the mean over its episodes). Then

        distinct = exp(mean over windows of H(sum_b w_b p_b) - sum_b w_b H(p_b))

    with H the entropy: exp of the mutual information of behaviour and choice. It is 1 if all
    behaviours act alike, and the number of behaviours if each would choose something else.
    """
    sums = _Sums(_behaviours_by_window(episodes))
    for part in manifest.parts:
        path = folder / part.path
        for table in row_groups(path, manifest.spec, _COLUMNS):
            try:
                sums.add(table)
            except ValueError as error:
                raise DatasetError(f"{path}: {error}") from error
        sums.end_part()
    of_behaviours = episodes["behaviour"].value_counts()["count"].to_numpy()
    return sums.coverage(effective(of_behaviours))


def row_groups(
    path: Path, spec: Spec, columns: tuple[str, ...] | None = None
) -> Iterator[pa.Table]:
    """Yield the row groups of a part, with the named columns or with all of them.

    Raises DatasetError if the part cannot be read or its columns are not those of the spec.
    """
    with part_errors(path):
        file = open_part(path, spec)
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=columns and list(columns))


def entropy(counts: NDArray[Any]) -> float:
    """Return the entropy in nats of shares that are given as counts or weights."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum()) + 0.0  # no minus in front of zero


def effective(counts: NDArray[Any]) -> float:
    """Return the number of equally frequent items with the same entropy: exp of it."""
    return math.exp(entropy(counts))


def _behaviours_by_window(episodes: pl.DataFrame) -> dict[int, tuple[int, str]]:
    """Return window and behaviour of the episodes on windows with two behaviours."""
    if episodes["behaviour"].n_unique() < 2:
        return {}
    several = pl.col("behaviour").n_unique().over("window") > 1
    rows = episodes.filter(several).select("episode", "window", "behaviour").rows()
    return {episode: (window, behaviour) for episode, window, behaviour in rows}


@dataclass
class _Sums:
    """Running sums of one pass; `first` holds the first choices of episodes, by window."""

    episodes: Mapping[int, tuple[int, str]]
    decisions: int = 0
    candidates: int = 0
    feasible: int = 0
    forced: int = 0
    certain: int = 0
    spread: float = 0.0
    support: float = 0.0
    smallest: float = math.inf
    known: bool = True
    chosen: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    first: dict[int, dict[str, list[Array]]] = field(default_factory=dict)
    met: set[int] = field(default_factory=set)  # episodes with an earlier choice
    information: list[float] = field(default_factory=list)

    def add(self, group: pa.Table) -> None:
        """Count the decisions of a row group, without its closing rows."""
        # By polars: Arrow imports pandas, which is slow, for every conversion to numpy.
        table = pl.DataFrame(group).filter(pl.col("choice").is_not_null())
        if table.is_empty():
            return
        choice = _numbers(table, "choice")
        starts, feasible = _lists(table, "feasible")
        n = np.add.reduceat(feasible, starts, dtype=np.int64)
        if (choice < 0).any() or (choice >= np.diff([*starts, len(feasible)])).any():
            raise ValueError("a choice is not the index of a candidate of its row")
        self.decisions += len(choice)
        self.chosen = _added(self.chosen, np.bincount(choice))
        self.candidates += len(feasible)
        self.feasible += int(n.sum())
        self.forced += int((n <= 1).sum())
        propensity = _numbers(table, "propensity")
        if np.isnan(propensity).any():  # recorded elsewhere, without probabilities
            self.known = False
            return
        self.smallest = min(self.smallest, float(propensity.min()))
        self.certain += int(((propensity == 1.0) & (n > 1)).sum())
        own, p = _lists(table, "behaviour_probabilities")
        if not np.array_equal(own, starts) or len(p) != len(feasible):
            raise ValueError("feasible and behaviour_probabilities differ in length")
        positive = p > 0
        self.support += float(
            (np.add.reduceat(positive, starts, dtype=np.int64) / np.maximum(n, 1)).sum()
        )
        self.spread -= float((p[positive] * np.log(p[positive])).sum(dtype=np.float64))
        if self.episodes:
            self._note_first(_numbers(table, "episode"), np.flatnonzero(n > 1), starts, p)

    def _note_first(
        self, episode: Array, open_rows: NDArray[np.int64], starts: NDArray[np.int64], p: Array
    ) -> None:
        """Keep the probabilities of the first row with a choice of each episode."""
        stops = [*starts[1:], len(p)]
        found, first = np.unique(episode[open_rows], return_index=True)
        for number, row in zip(found.tolist(), open_rows[first].tolist(), strict=True):
            entry = None if number in self.met else self.episodes.get(number)
            self.met.add(number)
            if entry is not None:
                window, behaviour = entry
                of_window = self.first.setdefault(window, {})
                own = p[starts[row] : stops[row]].astype(np.float64)
                of_window.setdefault(behaviour, []).append(own)

    def end_part(self) -> None:
        """Evaluate and forget the windows of a part, which holds whole windows."""
        met = (w for w in self.first.values() if len(w) > 1)
        self.information += [_information(w) for w in met if _same_length(w)]
        self.first.clear()
        self.met.clear()

    def coverage(self, effective_behaviours: float) -> Coverage:
        """Return the coverage that follows from the sums."""
        known = self.known and self.decisions > 0
        total = max(1, self.decisions)
        distinct = math.exp(float(np.mean(self.information))) if self.information else None
        return Coverage(
            decisions=self.decisions,
            candidates=self.candidates,
            feasible=self.feasible,
            forced=self.forced,
            certain=self.certain,
            chosen=self.chosen,
            spread=self.spread / total if known else None,
            support=self.support / total if known else None,
            smallest=self.smallest if known else None,
            distinct=distinct if known else None,
            effective_behaviours=effective_behaviours,
        )


def _information(behaviours: Mapping[str, list[Array]]) -> float:
    """Return the mutual information of behaviour and choice at one observation, in nats."""
    own = [np.mean(p, axis=0) for p in behaviours.values()]
    weights = np.array([len(p) for p in behaviours.values()], np.float64)
    weights /= weights.sum()
    mixed = np.sum([w * p for w, p in zip(weights, own, strict=True)], axis=0)
    inside = sum(w * entropy(p) for w, p in zip(weights, own, strict=True))
    return max(0.0, entropy(mixed) - float(inside))


def _same_length(behaviours: Mapping[str, list[Array]]) -> bool:
    return len({len(p) for own in behaviours.values() for p in own}) == 1


def _numbers(table: pl.DataFrame, name: str) -> NDArray[Any]:
    return _complete(table[name]).to_numpy()


def _lists(table: pl.DataFrame, name: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the start of each row's list, and the values of all lists; no list is empty."""
    column = _complete(table[name])
    ends = np.cumsum(column.list.len().to_numpy().astype(np.int64))
    if not np.diff(ends, prepend=0).all():
        raise ValueError(f"column {name!r} has an empty list, expected a value per candidate")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    return starts, _complete(column.explode()).to_numpy()


def _complete(column: pl.Series) -> pl.Series:
    """Return the column; raise ValueError if it has a null."""
    if column.null_count():
        raise ValueError(f"column {column.name!r} has a null, expected a value in every row")
    return column


def _added(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of two arrays of counts, the shorter one padded with zeros."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total
