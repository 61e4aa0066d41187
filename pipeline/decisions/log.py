"""A log of decisions, read and checked: arrays and frames, and the lines that were not used."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.decisions.batch import Ints, ragged_rows, slices
from hindcast.pipeline.decisions.mapping import DecisionMapping
from hindcast.pipeline.estimators.decisions.logged import offsets_of
from hindcast.pipeline.storage.gathering import release, taken
from hindcast.pipeline.workloads.schema import SourceFile

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

MOST_LEVELS: Final = 32  # columns of a category, by count in the train split
NOT_READ: Final = 1000  # levels from which on a text is no category
LONGEST_TEXT: Final = 200
_PIECE: Final = 1_000_000  # candidates
SMALL_PIECE: Final = 1 << 18  # of what is computed and not stored


@dataclass(frozen=True)
class Caution:
    """A fact that limits what a log can answer.

    Attributes:
        code: Its name, such as "deterministic".
        text: One sentence with the numbers that it follows from.
        numbers: Those numbers by name.
    """

    code: str
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DecisionLog:
    """Decisions of a log in the order of their times.

    Attributes:
        decisions: (D,) a row per decision: id, session, unit, slot, logger, file, line, time,
            time_s (seconds since the first), chosen and sampled (positions), overridden,
            propensity, kind, draws, weight (1 / probability that the record was kept), reward (null
            if missing), the logged terms `reward:NAME`, late (its reward may still come), split.
        context: (D,) features of the decisions: float64, or categories.
        candidates: (C,) id, feasible, probability (null if not logged).
        features: (C,) features of the candidates.
        offsets: (D + 1,) first candidate of each decision.
        quarantine: Decisions and lines that could not be used: file, line, id, reason.
        counts: Numbers of decisions, candidates and lines, by their use.
        notes: Sentences about how the log was read.
        cautions: Facts that limit the answers.
        mapping: The mapping by which the log was read.
        files: The files that were read, with their SHA-256.
        vocabulary: Levels of each category in the train split with their counts.
    """

    decisions: pl.DataFrame
    context: pl.DataFrame
    candidates: pl.DataFrame
    features: pl.DataFrame
    offsets: Ints
    quarantine: pl.DataFrame
    counts: Mapping[str, int]
    notes: tuple[str, ...]
    cautions: tuple[Caution, ...]
    mapping: DecisionMapping
    files: tuple[SourceFile, ...]
    vocabulary: Mapping[str, Mapping[str, int]]

    def __len__(self) -> int:
        """Return the number of decisions."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ints:
        """(D,) numbers of candidates."""
        return np.diff(self.offsets)

    @property
    def weighted(self) -> Flags:
        """(D,) flags of the decisions in weighted sums: with a reward, not overridden."""
        return (self.decisions["reward"].is_not_null() & ~self.decisions["overridden"]).to_numpy()

    @cached_property
    def units(self) -> Ints:
        """(D,) numbers of the units, in the order of their ids."""
        return (self.decisions["unit_id"].rank("dense") - 1).to_numpy().astype(np.int64)

    def feature(self, name: str) -> Array:
        """Return a numeric feature of the candidates, (C,), NaN where it is missing."""
        return self.features[name].to_numpy()

    def head(self) -> "DecisionLog":
        """Return the log without its decisions, for its columns."""
        return self._part(slice(0), slice(0), self.offsets[:1])

    def pieces(self, size: int | None = None) -> Iterator["DecisionLog"]:
        """Yield the log in pieces of about `size` candidates, each with whole decisions."""
        for of, rows in slices(self.offsets, size or _PIECE):
            release()
            yield self._part(of, rows, self.offsets[of.start : of.stop + 1] - rows.start)
        release()

    def take(self, decisions: Ints) -> "DecisionLog":
        """Return the log of some decisions, in that order."""
        return self._part(decisions, self.rows_of(decisions), offsets_of(self.lengths[decisions]))

    def _part(self, of: slice | Ints, rows: slice | Ints, offsets: Ints) -> "DecisionLog":
        """Return the log of the decisions `of`, whose candidates are `rows`."""
        return replace(
            self, decisions=self.decisions[of], context=taken(self.context, of),
            candidates=self.candidates[rows], features=taken(self.features, rows), offsets=offsets,
        )  # fmt: skip

    def rows_of(self, decisions: Ints) -> Ints:
        """Return the rows of the candidates of some decisions."""
        return ragged_rows(self.offsets, decisions)
