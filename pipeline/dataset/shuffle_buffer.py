"""Bounded buffer of decisions that are drawn uniformly, each once.

    rows        r0  r1  r2  r3  r4 ...      offsets[r] .. offsets[r + 1] are a row's candidates
    waiting      x       x   x              drawn rows are false; so are closing rows
    after squeezing   r0 r1 r2 r3 r4: rows that wait, and the row after each, its next observation;
                      a row without a closing row is its own next observation

The arrays are allocated once; candidates are neither padded nor stored twice.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.gather import COPIED, Observations
from hindcast.pipeline.dataset.padding import largest_set
from hindcast.pipeline.dataset.part import Block, ends_alone
from hindcast.pipeline.simulation.spec import Spec

_SUMS: Final = ("to_go", "discounted")  # columns with an element per row that no Block has


def row_bytes(columns: Columns, spec: Spec) -> tuple[int, int]:
    """Return the bytes of a row without its candidates, and of a candidate."""
    rows = _make_rows(0, columns, spec).values()
    row = sum(a.itemsize * int(np.prod(a.shape[1:])) for a in rows)
    return row, 4 * (len(spec.candidates) + ("probabilities" in columns.more)) + 1


def _make_rows(count: int, columns: Columns, spec: Spec) -> dict[str, NDArray[Any]]:
    """Return arrays with one element per row."""
    like = columns.arrays(spec, 0)
    rows: dict[str, NDArray[Any]] = {
        name: np.empty((count, *like[name].shape[1:]), like[name].dtype)
        for name in ("context", "choice", "image", *COPIED, *_SUMS)
        if name in like
    }
    rows["offset"] = np.zeros(count, np.int64)
    rows["waiting"] = np.zeros(count, np.bool_)
    rows["alone"] = np.zeros(count, np.bool_)  # the row is its own next observation
    return rows


class ShuffleBuffer:
    """Buffer for `rows` rows with `candidates` candidates in total.

    With transitions, the row after a decision is kept with it. `used` is the number of rows in the
    buffer.
    """

    def __init__(self, columns: Columns, spec: Spec, rows: int, candidates: int) -> None:
        self._columns, self._spec = columns, spec
        self._rows = _make_rows(rows + 1, columns, spec)
        self._seen = Observations(
            context=self._rows["context"],
            image=self._rows.get("image"),
            offsets=self._rows["offset"],
            candidates=np.empty((candidates, len(spec.candidates)), np.float32),
            feasible=np.empty(candidates, np.bool_),
            probabilities=np.empty(candidates * ("probabilities" in columns.more), np.float32),
        )
        self.used = 0
        self._order = np.zeros(0, np.int64)

    def __len__(self) -> int:
        """Return the number of decisions that wait to be drawn."""
        return len(self._order)

    def fits(self, rows: int, candidates: int) -> bool:
        """Return whether there is room for further rows and candidates."""
        free = len(self._rows["offset"]) - 1 - self.used, len(self._seen.feasible) - self._end
        return rows <= free[0] and candidates <= free[1]

    @property
    def _end(self) -> int:
        """Number of candidates in use."""
        return int(self._rows["offset"][self.used])

    def pour(
        self, block: Block, episode: NDArray[np.int64], sums: Mapping[str, NDArray[np.float64]]
    ) -> None:
        """Add the rows of a block whose `episode` (R,) is not negative, under that number.

        `sums` has by name the sums of rewards (R,) that the buffer keeps. The caller has checked
        with `fits` that there is room. Call `shuffle` before the next draw.
        """
        here, there = self._end, self._end + int(block.offsets[-1])
        rows = slice(self.used, self.used + len(block))
        columns = self._rows
        for name in ("context", "choice", "image", *COPIED):
            if name in columns:
                columns[name][rows] = getattr(block, COPIED.get(name, name))
        for name, values in sums.items():
            columns[name][rows] = values
        columns["episode"][rows] = episode
        columns["waiting"][rows] = (block.choice != NO_CHOICE) & (episode >= 0)
        columns["alone"][rows] = ends_alone(block.step, block.terminated, self._spec)
        columns["offset"][self.used : rows.stop + 1] = here + block.offsets
        self._seen.candidates[here:there] = block.candidates
        self._seen.feasible[here:there] = block.feasible
        if len(self._seen.probabilities):
            self._seen.probabilities[here:there] = block.probabilities
        self.used = rows.stop

    def shuffle(self, rng: np.random.Generator) -> None:
        """Put all waiting decisions into a new random order."""
        self._order = rng.permutation(np.flatnonzero(self._rows["waiting"][: self.used]))

    def squeeze(self) -> None:
        """Make room: drop rows that neither wait nor follow a waiting row."""
        n = self.used
        keep = self._rows["waiting"][:n].copy()
        if self._columns.transitions:
            keep[self._after(np.flatnonzero(keep))] = True
        end = _squeeze(keep, *self._seen[2:])
        self.used = int(keep.sum())
        for name, column in self._rows.items():
            if name != "offset":
                column[: self.used] = column[:n][keep]
        self._rows["offset"][self.used] = end

    def draw(self, count: int) -> NDArray[np.int64]:
        """Return the next `count` rows in random order and mark them as drawn."""
        drawn, self._order = self._order[:count], self._order[count:]
        self._rows["waiting"][drawn] = False
        return drawn

    def _after(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the next observations of rows (B,)."""
        following: NDArray[np.int64] = rows + ~self._rows["alone"][rows]
        return following

    def gather(self, drawn: NDArray[np.int64], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Return the columns of Decisions for rows (B,)."""
        columns = self._columns
        if columns.k is None:
            rows = np.concatenate([drawn, self._after(drawn)]) if columns.transitions else drawn
            columns = replace(columns, k=int(largest_set(self._seen.offsets, rows)))
        out = columns.arrays(self._spec, len(drawn))
        self._seen.write(drawn, rng, out, self._rows["choice"][drawn])
        for name in (*COPIED, *_SUMS):
            if name in out:
                np.take(self._rows[name], drawn, axis=0, out=out[name])
        if columns.transitions:
            self._seen.write(self._after(drawn), rng, out)
        return out


@njit(cache=True, nogil=True)
def _squeeze(keep, offset, candidates, feasible, probabilities):  # type: ignore[no-untyped-def]
    """Move the candidates of kept rows, and their offsets, to the front; return their end."""
    row = 0
    end = 0
    for r in range(len(keep)):
        start, stop = offset[r], offset[r + 1]
        if not keep[r]:
            continue
        if end != start:
            for i in range(stop - start):
                feasible[end + i] = feasible[start + i]
                if len(probabilities) > 0:
                    probabilities[end + i] = probabilities[start + i]
                for f in range(candidates.shape[1]):
                    candidates[end + i, f] = candidates[start + i, f]
        offset[row] = end
        row += 1
        end += stop - start
    return end
