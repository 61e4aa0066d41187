"""What the choices of a log cover: positions, probabilities, and how much behaviours differ.

One pass over the parts, a row group at a time, of the few columns that tell it.
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

from pipeline.dataset import manifest as mf
from pipeline.dataset.part import open_part, part_errors
from pipeline.errors import DatasetError
from pipeline.simulation.spec import Spec

_COLUMNS: Final = (
    "episode", "step", "choice", "feasible", "propensity", "behaviour_probabilities",
)  # fmt: skip

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coverage:
    """Counts over all decisions of a dataset.

    candidates, feasible   how many there were in all
    forced                 decisions with one feasible candidate
    certain                decisions with more than one, of which one had probability 1
    chosen                 (P,) how often each position was chosen
    spread                 mean entropy of a decision's probabilities, in nats
    support                mean share of a decision's feasible candidates with probability > 0
    smallest               smallest propensity
    distinct               effective number of different behaviours, see `measure`

    The last four are None where probabilities were not recorded; `distinct` is None too where no
    window was met by two behaviours.
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

    @property
    def positions(self) -> int:
        """How many positions were ever chosen."""
        return int(np.count_nonzero(self.chosen))

    @property
    def entropy(self) -> float:
        """Entropy of the chosen position over all decisions, in nats."""
        return entropy(self.chosen)

    @property
    def one_position(self) -> bool:
        """One and the same position was chosen in every decision."""
        return self.positions == 1 and self.forced < self.decisions

    @property
    def deterministic(self) -> bool:
        """Wherever there was something to choose, one candidate had probability 1."""
        choices = self.decisions - self.forced
        return self.spread is not None and choices > 0 and self.certain == choices


def measure(folder: Path, manifest: mf.Manifest, episodes: pl.DataFrame) -> Coverage:
    """The coverage of a dataset's parts; DatasetError where they cannot be read.

    `distinct` compares behaviours where they meet the same observation: where an episode of a
    window has something to choose for the first time. Behaviour b, with the share w_b of the
    window's episodes, has the probabilities p_b there (the mean over its episodes). Then

        distinct = exp(mean over windows of H(sum_b w_b p_b) - sum_b w_b H(p_b))

    with H the entropy: exp of the mutual information of behaviour and choice. 1 means that all
    behave alike, the number of behaviours that each would choose something else.
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
    return sums.coverage()


def row_groups(
    path: Path, spec: Spec, columns: tuple[str, ...] | None = None
) -> Iterator[pa.Table]:
    """The row groups of a part, of the columns named or of all.

    Raises DatasetError where it cannot be read or has other columns than the spec.
    """
    with part_errors(path):
        file = open_part(path, spec)
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=columns and list(columns))


def entropy(counts: NDArray[Any]) -> float:
    """Entropy in nats of shares that are given as counts or weights."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum()) + 0.0  # no minus in front of zero


def effective(counts: NDArray[Any]) -> float:
    """How many equally frequent things have the same entropy: exp of it."""
    return math.exp(entropy(counts))


def _behaviours_by_window(episodes: pl.DataFrame) -> dict[int, tuple[int, str]]:
    """Window and behaviour of every episode, where a window was met by two behaviours."""
    several = pl.col("behaviour").n_unique().over("window") > 1
    rows = episodes.filter(several).select("episode", "window", "behaviour").rows()
    return {episode: (window, behaviour) for episode, window, behaviour in rows}


@dataclass
class _Sums:
    """Running sums of one pass; `first` holds what is known of first choices, by window."""

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
    met: set[int] = field(default_factory=set)  # episodes that had a choice already
    information: list[float] = field(default_factory=list)

    def add(self, table: pa.Table) -> None:
        """Count the decisions of a row group; closing rows are none."""
        table = table.filter(table.column("choice").is_valid())
        if table.num_rows == 0:
            return
        choice = _numbers(table, "choice")
        starts, feasible = _lists(table, "feasible")
        n = np.add.reduceat(feasible, starts, dtype=np.int64)
        if (choice < 0).any() or (choice >= np.diff([*starts, len(feasible)])).any():
            raise ValueError("a choice is none of its candidates")
        self.decisions += len(choice)
        self.chosen = _added(self.chosen, np.bincount(choice))
        self.candidates += len(feasible)
        self.feasible += int(n.sum())
        self.forced += int((n <= 1).sum())
        propensity = _numbers(table, "propensity")
        if np.isnan(propensity).any():  # recorded elsewhere: how it was drawn is not known
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
        self._note_first(_numbers(table, "episode"), np.flatnonzero(n > 1), starts, p)

    def _note_first(
        self, episode: Array, open_rows: NDArray[np.int64], starts: NDArray[np.int64], p: Array
    ) -> None:
        """Keep the probabilities of the first rows of episodes that have a choice."""
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
        """A part holds whole windows: what they say of behaviours can be forgotten."""
        met = (w for w in self.first.values() if len(w) > 1)
        self.information += [_information(w) for w in met if _same_length(w)]
        self.first.clear()
        self.met.clear()

    def coverage(self) -> Coverage:
        """What the sums come to."""
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
        )


def _information(behaviours: Mapping[str, list[Array]]) -> float:
    """Mutual information of behaviour and choice at one observation, in nats."""
    own = [np.mean(p, axis=0) for p in behaviours.values()]
    weights = np.array([len(p) for p in behaviours.values()], np.float64)
    weights /= weights.sum()
    mixed = np.sum([w * p for w, p in zip(weights, own, strict=True)], axis=0)
    inside = sum(w * entropy(p) for w, p in zip(weights, own, strict=True))
    return max(0.0, entropy(mixed) - float(inside))


def _same_length(behaviours: Mapping[str, list[Array]]) -> bool:
    return len({len(p) for own in behaviours.values() for p in own}) == 1


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    column = table.column(name)
    if column.null_count:
        raise ValueError(f"column {name!r} has a null where a value belongs")
    return np.asarray(column.to_numpy())


def _lists(table: pa.Table, name: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Where each row's list starts, and the values of all of them; no list is empty."""
    column = table.column(name).combine_chunks()
    values = column.flatten()
    lengths = column.value_lengths()
    if values.null_count or lengths.null_count:
        raise ValueError(f"column {name!r} has a null where a value belongs")
    ends = np.cumsum(lengths.to_numpy().astype(np.int64))
    if not np.diff(ends, prepend=0).all():
        raise ValueError(f"column {name!r} has an empty list where a value belongs")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    return starts, np.asarray(values.to_numpy(zero_copy_only=False))


def _added(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of two arrays of counts, the shorter one continued with zeros."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total
