"""Rows of a dataset with exactly K candidates each, a bounded number of rows at a time.

    candidates of a row     a b c d e        K = 3, c was chosen      a c d   (two drawn of a b d e)
                            a b              K = 3                    a b 0   (padding: mask False)

Rows with up to K candidates keep all of them, in order. Rows with more keep the chosen candidate
and a uniform draw of the other feasible ones, in order; their probabilities are unchanged and no
longer sum to 1. Closing rows have no choice, so all their candidates are drawn from the feasible.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.documents.card.coverage import row_groups
from hindcast.pipeline.dataset.documents.terms import terms
from hindcast.pipeline.dataset.padding import pick
from hindcast.pipeline.dataset.part import Block
from hindcast.pipeline.exports import Progress
from hindcast.pipeline.exports._labels import Labels
from hindcast.pipeline.simulation.seeds import generator

_BYTES: Final = 32 << 20  # bytes of padded candidates at once


@dataclass(frozen=True)
class Padding:
    """Number K of candidates of padded rows, and the candidates that a dataset loses by it.

    Attributes:
        k: Number of candidates of every padded row.
        largest: Largest number of candidates of a decision or a closing row of the dataset, so that
            exports of its splits have the same K.
        decisions: Number of decisions that are written.
        cut: Decisions that had more than K candidates, of those that are written.
        left_out: Share of their candidates that are left out.
    """

    k: int
    largest: int
    decisions: int
    cut: int
    left_out: float

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a user of the export needs to know."""
        padded = f"candidates are padded to K = {self.k} with zeros; the mask is False there"
        if not self.cut:
            return (padded, f"nothing was cut: no decision has more than {self.largest} candidates")
        share = self.cut / self.decisions
        cut = (
            f"{self.cut:,} of {self.decisions:,} decisions ({share:.2%}) had more than K "
            f"candidates, up to {self.largest}: the chosen one and at most {self.k - 1} others "
            f"drawn from the feasible are kept; {self.left_out:.2%} of all candidates are left out"
        )
        return (padded, cut)


def described(dataset: Dataset, padding: Padding, labels: Labels) -> dict[str, Any]:
    """Return facts about a padded dataset for which its format has no columns."""
    spec, trace_terms = dataset.spec, terms(dataset.manifest)
    return {
        "dataset": dataset.manifest.name,
        "digest": dataset.manifest.digest,
        "scenario": spec.scenario,
        "objective": spec.objective,
        "discount": spec.discount,
        "split": labels.split,
        "candidates": padding.k,
        "cut_decisions": padding.cut,
        "notes": [*padding.notes, *labels.notes],
        "licence": trace_terms.licence,
        "citation": trace_terms.citation,
    }


def choose_padding(dataset: Dataset, candidates: int | None, labels: Labels) -> Padding:
    """Return the padding with K = `candidates`, or the largest number in the dataset."""
    largest = 1  # a lower bound, so that arrays have a K
    cut = n_candidates = n_kept = 0
    for part in dataset.manifest.parts:
        path = dataset.folder / part.path
        for table in row_groups(path, dataset.spec, ("episode", "feasible", "choice")):
            lists = table.column("feasible").combine_chunks()
            offsets = lists.offsets.to_numpy().astype(np.int64)
            lengths = np.diff(offsets)
            largest = max(largest, int(lengths.max(initial=0)))
            if candidates is None:
                continue
            episode = table.column("episode").to_numpy()
            decided = np.array(table.column("choice").is_valid()) & labels.writes(episode)
            n_candidates += int(lengths[decided].sum())
            more = decided & (lengths > candidates)
            cut += int(more.sum())
            total = np.append(0, np.cumsum(lists.values.to_numpy(zero_copy_only=False)))
            feasible = np.diff(total[offsets])
            n_kept += int(lengths[decided & ~more].sum())
            n_kept += int(np.minimum(feasible[more], candidates).sum())
    share = 1.0 - n_kept / n_candidates if cut else 0.0
    k = largest if candidates is None else candidates
    return Padding(k, largest, labels.decisions, cut, share)


@dataclass(frozen=True)
class Rows:
    """R consecutive rows of a part, closing rows among them.

    Attributes:
        block: Block of the rows; `of` returns its other columns.
        rows: Place of the rows in the block.
        candidates: (R, K, F) float32, zeros where padded.
        mask: (R, K) bool, feasible and not padding.
        probabilities: (R, K) float32, of the behaviour.
        choice: (R,) int64, index among the K; -1 in closing rows.
    """

    block: Block
    rows: slice
    candidates: NDArray[np.float32]
    mask: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    choice: NDArray[np.int64]

    def of(self, name: str) -> NDArray[Any]:
        """Return a column of the block that has one value, or one row of values, for each row."""
        values: NDArray[Any] = getattr(self.block, name)[self.rows]
        return values

    def between(self, start: int, stop: int) -> "Rows":
        """Return the rows from `start` to `stop`."""
        first = self.rows.start
        return Rows(
            self.block, slice(first + start, first + stop), self.candidates[start:stop],
            self.mask[start:stop], self.probabilities[start:stop], self.choice[start:stop],
        )  # fmt: skip

    def by_episode(self) -> Iterator["Rows"]:
        """Yield the rows of each episode."""
        starts = np.flatnonzero(np.diff(self.of("episode"), prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(self.choice)], strict=True):
            yield self.between(int(start), int(stop))


def padded(dataset: Dataset, k: int, labels: Labels, tell: Progress) -> Iterator[Rows]:
    """Yield the rows of all written episodes with `k` candidates each.

    Draws depend on the recipe's seed.
    """
    parts = len(dataset.manifest.parts)
    step = max(1, _BYTES // (4 * k * max(1, len(dataset.spec.candidates))))
    for part in range(parts):
        rng = generator(dataset.recipe.seed, "export", part)
        for block in dataset.blocks(part):
            for begin, end in labels.ranges(block.episode):
                for start in range(begin, end, step):
                    yield _cut(block, slice(start, min(start + step, end)), k, rng)
        tell(part + 1, parts)


def _cut(block: Block, rows: slice, k: int, rng: np.random.Generator) -> Rows:
    count = rows.stop - rows.start
    index = np.full((count, k), -1, np.int64)
    choice = np.full(count, NO_CHOICE, np.int64)
    feasible = np.zeros(count, np.int64)
    numbers = np.arange(rows.start, rows.stop)
    pick(block.offsets, block.feasible, numbers, block.choice[rows], rng, index, choice, feasible)
    is_filled = index >= 0
    return Rows(
        block=block,
        rows=rows,
        candidates=_gathered(block.candidates, index, is_filled),
        mask=_gathered(block.feasible, index, is_filled),
        probabilities=_gathered(block.probabilities, index, is_filled),
        choice=choice,
    )


def _gathered(
    values: NDArray[Any], index: NDArray[np.int64], is_filled: NDArray[np.bool_]
) -> NDArray[Any]:
    """Return values[index], with zeros where `is_filled` is False."""
    out = np.zeros((*index.shape, *values.shape[1:]), values.dtype)
    out[is_filled] = values[index[is_filled]]
    return out
