"""Uniform samples of the decisions of a split as arrays, candidates cut or padded to K."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.columns import NO_CHOICE, SKIPPABLE
from hindcast.pipeline.dataset.decisions import Decisions, make_columns
from hindcast.pipeline.dataset.padding import Padded, pad
from hindcast.pipeline.dataset.part import Block
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.statistics.returns import discounted_sums, step_discounts


@dataclass(frozen=True)
class FurtherColumns:
    """Columns of candidates that are computed from logged observations while a log is read.

    Attributes:
        width: Number G of the columns.
        widen: Function (context (B, C), candidates (V, F), offsets (B + 1,), feasible (V,)) ->
            candidates with the columns at the end, (V, F + G). It is given all candidates of B
            observations, those of observation b in rows offsets[b]:offsets[b + 1].
    """

    width: int
    widen: Callable[..., NDArray[Any]]


_READERS: Final = 2  # parts read at once; more only costs memory


def sample_decisions(
    dataset: Dataset,
    split: str,
    rng: np.random.Generator,
    *,
    k: int,
    per_episode: int | None = None,
    limit: int | None = None,
    transitions: bool = False,
    images: bool = False,
    probabilities: bool = False,
    discount: float | None = None,
    per_second: bool = False,
    further: FurtherColumns | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Decisions:
    """Return decisions of a split as arrays, candidates cut or padded to `k`.

    At most `per_episode` decisions of every episode and at most `limit` in total are drawn
    uniformly without replacement. The result depends on `rng` alone. `images` adds the images of
    scenarios that have them, `probabilities` those of the candidates under the behaviour; a
    `discount` below 1, per decision or `per_second`, adds `discounted`. `further` columns of the
    candidates are computed before candidates are cut. In memory are the result
    (`decisions.decision_bytes` per decision), which is filled in place, and one or two row groups
    for each of two readers. Raises DatasetError if the split has no episodes.
    """
    chosen = dataset.episodes(split)
    returns = chosen["return"].to_numpy()
    wanted = _wanted_steps(chosen["steps"].to_numpy(), per_episode, limit, rng)
    seeds = rng.integers(2**63, size=len(dataset.manifest.parts))
    first = np.cumsum([0, *map(len, wanted)])
    found = make_columns(
        int(first[-1]), dataset.spec, k,
        transitions=transitions, images=images, probabilities=probabilities,
        further=0 if further is None else further.width,
    )  # fmt: skip
    found["to_go"] = np.empty(len(found["reward"]))
    if discount is not None and discount < 1.0:
        found["discounted"] = np.empty(len(found["reward"]))
    home = chosen["first_part"].to_numpy()
    if (np.diff(home) < 0).any():
        raise DatasetError(
            f"{dataset.folder}: the episodes are not in the order of the parts; see "
            "`hindcast verify`"
        )
    parts, begins = np.unique(home, return_index=True)
    bounds = first[[*begins, len(wanted)]]
    position = {e: i for i, e in enumerate(chosen["episode"])}
    needed = {"image"} if images else set()
    without = SKIPPABLE - (needed | {"behaviour_probabilities"} if probabilities else needed)

    def read(index: int) -> None:
        part = int(parts[index])
        own = np.random.default_rng(seeds[part])
        at, end = int(bounds[index]), int(bounds[index + 1])
        gather = _Gather(dataset.part(part), found, at, end, position, wanted, own, further)
        for block in dataset.blocks(part, without):
            gather.add(block)
            if discount is not None and discount < 1.0:
                shares = step_discounts(block.elapsed_s, discount, per_second=per_second)
                gather.remember(block, shares)
            del block  # before the next one is read
        if gather.at != end:
            raise gather.unlike()
        if "discounted" in found:
            found["discounted"][at:end] = gather.discounted()

    with ThreadPoolExecutor(_READERS) as pool:
        for done, _nothing in enumerate(pool.map(read, range(len(parts))), start=1):
            if progress is not None:
                progress(done, len(parts))
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
    """Writer of the wanted rows of consecutive blocks into the columns, from row `at` to `end`.

    A decision and its next observation can be in two blocks: then the decision waits for the
    second.
    """

    def __init__(
        self,
        path: Path,
        found: dict[str, NDArray[Any]],
        at: int,
        end: int,
        position: dict[int, int],
        wanted: list[NDArray[np.int64]],
        rng: np.random.Generator,
        further: FurtherColumns | None = None,
    ) -> None:
        self._path, self._found, self.at, self._end = path, found, at, end
        self._position, self._wanted = position, wanted
        self._rng, self._transitions, self._further = rng, "next_mask" in found, further
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
        if self.at > self._end:
            raise self.unlike()
        if self.at > len(self._found["reward"]):
            raise DatasetError(
                f"{self._path}: episode {block.episode[0]} has more decisions than the table of "
                "episodes says; see `hindcast verify`"
            )
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
        found, to = self._found, slice(at, at + len(rows))
        found["context"][to] = block.context[rows]
        self._pad(block, rows, block.choice[rows], to, "")
        found["propensity"][to] = block.propensity[rows]
        found["reward"][to] = block.reward[rows]
        found["elapsed_s"][to] = block.elapsed_s[rows]
        found["terminated"][to] = block.terminated[rows]
        found["episode"][to] = [self._position[int(e)] for e in block.episode[rows]]
        found["step"][to] = block.step[rows]
        found["to_go"][to] = -self._gone[rows]
        if block.value is not None:
            found["value"][to] = block.value[rows]
        if "image" in found and block.image is not None:
            found["image"][to] = block.image[rows]

    def _next(self, block: Block, rows: NDArray[np.int64], at: int) -> None:
        found, to = self._found, slice(at, at + len(rows))
        found["next_context"][to] = block.context[rows]
        self._pad(block, rows, np.full(len(rows), NO_CHOICE, np.int64), to, "next_")
        found["next_mask"][to][found["terminated"][to]] = False
        if "next_image" in found and block.image is not None:
            found["next_image"][to] = block.image[rows]

    def _pad(
        self, block: Block, rows: NDArray[np.int64], choice: NDArray[np.int64], to: slice, of: str
    ) -> None:
        """Write candidates and masks of the rows; of decisions also the choice and `drawn`."""
        found = self._found
        lost = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        picked, drawn = lost if of else (found["choice"][to], found["drawn"][to])
        own = None if of or "probabilities" not in found else found["probabilities"][to]
        out = Padded(found[f"{of}candidates"][to], found[f"{of}mask"][to], picked, drawn, own)
        offsets, candidates, feasible = block.offsets, block.candidates, block.feasible
        probabilities = block.probabilities
        if self._further is not None:
            taken, offsets = _candidates_of(block.offsets, rows)
            feasible = feasible[taken]
            candidates = self._further.widen(
                block.context[rows], candidates[taken], offsets, feasible
            ).astype(np.float32)
            if own is not None:
                probabilities = probabilities[taken]
            rows = np.arange(len(rows))
        pad(offsets, candidates, feasible, rows, choice, self._rng, out, probabilities)


def _candidates_of(
    offsets: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the candidates of rows (D,) one after the other, and their offsets (D + 1,)."""
    counts = offsets[rows + 1] - offsets[rows]
    own = np.concatenate([[0], np.cumsum(counts)])
    return np.repeat(offsets[rows] - own[:-1], counts) + np.arange(own[-1]), own
