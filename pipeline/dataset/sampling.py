"""Uniform samples of the decisions of a split as arrays, candidates cut or padded to K."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.columns import NO_CHOICE, SKIPPABLE
from hindcast.pipeline.dataset.decisions import ON_REQUEST, Columns, Decisions, FurtherColumns
from hindcast.pipeline.dataset.gather import COPIED, Observations
from hindcast.pipeline.dataset.part import Block
from hindcast.pipeline.dataset.reward_sums import Discount
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.statistics.returns import discounted_sums

_READERS: Final = 2  # parts read at once; more only costs memory


def sample_decisions(
    dataset: Dataset,
    split: str,
    rng: np.random.Generator,
    columns: Columns,
    *,
    per_episode: int | None = None,
    limit: int | None = None,
    discount: Discount | None = None,
) -> Decisions:
    """Return decisions of a split as arrays, candidates cut or padded to `columns.k`.

    At most `per_episode` decisions of every episode and at most `limit` in total are drawn
    uniformly without replacement. The result depends on `rng` alone. `to_go` is always there, a
    `discount` below 1 adds `discounted`. Further columns of the candidates are computed before
    candidates are cut. In memory are the result (`columns.bytes` per decision), which is filled in
    place, and one or two row groups for each of two readers. Raises DatasetError if the split has
    no episodes.
    """
    chosen = dataset.episodes(split)
    returns = chosen["return"].to_numpy()
    wanted = _wanted_steps(chosen["steps"].to_numpy(), per_episode, limit, rng)
    seeds = rng.integers(2**63, size=len(dataset.manifest.parts))
    first = np.cumsum([0, *map(len, wanted)])
    discounted = discount if discount is not None and discount.discount < 1.0 else None
    sums = ("to_go",) if discounted is None else ("to_go", "discounted")
    every = replace(columns, more=(*columns.more, *sums))
    found = every.arrays(dataset.spec, int(first[-1]))
    home = chosen["first_part"].to_numpy()
    if (np.diff(home) < 0).any():
        raise DatasetError(
            f"{dataset.folder}: the episodes are not in the order of the parts; see "
            "`hindcast verify`"
        )
    parts, begins = np.unique(home, return_index=True)
    bounds = first[[*begins, len(wanted)]]
    position = {e: i for i, e in enumerate(chosen["episode"])}
    needed = {name for name, of in ON_REQUEST.items() if of in columns.more}
    without = SKIPPABLE - needed - ({"image"} if columns.images else set())

    def read(index: int) -> None:
        part = int(parts[index])
        own = np.random.default_rng(seeds[part])
        at, end = int(bounds[index]), int(bounds[index + 1])
        filled = {name: column[at:end] for name, column in found.items()}
        gather = _Gather(dataset.part(part), filled, position, wanted, own, columns.further)
        for block in dataset.blocks(part, without):
            gather.add(block)
            if discounted is not None:
                gather.remember(block, discounted.shares(block.elapsed_s))
            del block  # before the next one is read
        if gather.at != end - at:
            raise gather.unlike()
        if "discounted" in filled:
            filled["discounted"][:] = gather.discounted()

    with ThreadPoolExecutor(_READERS) as pool:
        list(pool.map(read, range(len(parts))))
    found["to_go"] += returns[found["episode"]]
    pa.default_memory_pool().release_unused()  # the learner that runs next needs the memory
    return Decisions(episodes=chosen, **found)


def _wanted_steps(
    steps: NDArray[np.int64],
    per_episode: int | None,
    limit: int | None,
    rng: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """Return the steps to take of every episode, ascending."""
    wanted = [
        np.arange(n) if per_episode is None or n <= per_episode
        else np.sort(rng.choice(n, per_episode, replace=False))
        for n in steps
    ]  # fmt: skip
    total = sum(map(len, wanted))
    if limit is None or total <= limit:
        return wanted
    keep = np.zeros(total, np.bool_)
    keep[rng.choice(total, limit, replace=False)] = True
    cuts = np.cumsum([len(w) for w in wanted])[:-1]
    return [w[m] for w, m in zip(wanted, np.split(keep, cuts), strict=True)]


class _Gather:
    """Writer of the wanted rows of a part's blocks into the columns of Decisions.

    A decision and its next observation can be in two blocks: then the decision waits for the
    second. `at` is the number of rows that are written.
    """

    def __init__(
        self,
        path: Path,
        filled: dict[str, NDArray[Any]],
        position: dict[int, int],
        wanted: list[NDArray[np.int64]],
        rng: np.random.Generator,
        further: FurtherColumns | None,
    ) -> None:
        self._path, self._filled, self.at = path, filled, 0
        self._position, self._wanted = position, wanted
        self._rng, self._transitions, self._further = rng, "next_mask" in filled, further
        self._waits = False  # whether the row before `at` waits for its next observation
        self._last = (-1, 0.0)  # episode of the last row, and its sum of rewards
        self._gone = np.zeros(0)
        # of all rows of the part, wanted or not: episode, reward, discount of the rewards after it
        self._past: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._taken: list[NDArray[np.int64]] = []  # rows of the part that are wanted

    def add(self, block: Block) -> None:
        """Take the wanted rows of the block."""
        if len(block) == 0:
            return
        self._add_rewards(block)
        if self._waits:
            self._next(block, np.zeros(1, np.int64), self.at - 1)
        rows = self._rows(block)
        self._waits = self._transitions and len(rows) > 0 and rows[-1] == len(block) - 1
        at, self.at = self.at, self.at + len(rows)
        if self.at > len(self._filled["reward"]):
            raise self.unlike()
        if self._waits:
            self._here(block, rows[-1:], self.at - 1)
            rows = rows[:-1]
        if len(rows):
            self._here(block, rows, at)
            if self._transitions:
                self._next(block, rows + 1, at)

    def remember(self, block: Block, share: NDArray[np.float64]) -> None:
        """Keep the terms of the discounted sums; call it after `add` of the same block."""
        offset = sum(len(reward) for _, reward, _ in self._past)
        self._taken.append(self._rows(block) + offset)
        self._past.append((block.episode.copy(), block.reward.copy(), share))

    def discounted(self) -> NDArray[np.float64]:
        """Return discounted rewards from each wanted row of the part to the end of its episode."""
        if not self._past:
            return np.zeros(0)
        columns = zip(*self._past, strict=True)
        episode, reward, share = (np.concatenate(column) for column in columns)
        return discounted_sums(episode, reward, share)[np.concatenate(self._taken)]

    def unlike(self) -> DatasetError:
        """Return the error for a part with other decisions than the table of episodes says."""
        return DatasetError(
            f"{self._path}: this part holds other decisions than the table of episodes says; see "
            "`hindcast verify`"
        )

    def _add_rewards(self, block: Block) -> None:
        """Compute the sum of rewards in its episode before each row of the block."""
        starts = np.flatnonzero(np.diff(block.episode, prepend=-1))
        total = np.cumsum(block.reward)
        before = total - block.reward
        carried = np.zeros(len(starts))
        if int(block.episode[0]) == self._last[0]:
            carried[0] = self._last[1]
        base = carried - before[starts]
        self._gone = before + np.repeat(base, np.diff([*starts, len(block)]))
        self._last = int(block.episode[-1]), float(self._gone[-1] + block.reward[-1])

    def _rows(self, block: Block) -> NDArray[np.int64]:
        """Return the rows of the block that are wanted, in order."""
        found = []
        starts = np.flatnonzero(np.diff(block.episode, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(block)], strict=True):
            index = self._position.get(int(block.episode[start]))
            if index is None:
                continue
            rows = self._wanted[index] - block.step[start] + start
            rows = rows[(rows >= start) & (rows < stop)]
            found.append(rows[block.choice[rows] != NO_CHOICE])
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _here(self, block: Block, rows: NDArray[np.int64], at: int) -> None:
        out = {name: column[at : at + len(rows)] for name, column in self._filled.items()}
        seen, own = self._observations(block, rows)
        seen.write(own, self._rng, out, block.choice[rows])
        for name, of in COPIED.items():
            if name in out:
                out[name][:] = getattr(block, of)[rows]
        out["episode"][:] = [self._position[int(e)] for e in block.episode[rows]]
        out["to_go"][:] = -self._gone[rows]

    def _next(self, block: Block, rows: NDArray[np.int64], at: int) -> None:
        out = {name: column[at : at + len(rows)] for name, column in self._filled.items()}
        seen, own = self._observations(block, rows)
        seen.write(own, self._rng, out)

    def _observations(
        self, block: Block, rows: NDArray[np.int64]
    ) -> tuple[Observations, NDArray[np.int64]]:
        """Return observations with the further columns, and where those of `rows` are in them."""
        seen = Observations(
            block.context, block.image, block.offsets, block.candidates, block.feasible,
            block.probabilities,
        )  # fmt: skip
        if self._further is None:
            return seen, rows
        taken, offsets = _candidates_of(block.offsets, rows)
        context, feasible = block.context[rows], block.feasible[taken]
        wide = self._further.widen(context, block.candidates[taken], offsets, feasible)
        read = len(block.probabilities) > 0
        some = Observations(
            context=context,
            image=None if block.image is None else block.image[rows],
            offsets=offsets,
            candidates=wide.astype(np.float32),
            feasible=feasible,
            probabilities=block.probabilities[taken] if read else block.probabilities,
        )
        return some, np.arange(len(rows))


def _candidates_of(
    offsets: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the candidates of rows (D,) one after the other, and their offsets (D + 1,)."""
    counts = offsets[rows + 1] - offsets[rows]
    own = np.concatenate([[0], np.cumsum(counts)])
    return np.repeat(offsets[rows] - own[:-1], counts) + np.arange(own[-1]), own
