"""Reading a dataset: its spec, its episodes, its decisions as blocks or as arrays for learners."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numba import njit
from numpy.typing import NDArray

from pipeline import manifest as mf
from pipeline.build import episodes_schema
from pipeline.decisions import Decisions
from pipeline.errors import DatasetError
from pipeline.parts import Block, read_blocks
from pipeline.recipe import Recipe
from pipeline.record import NO_CHOICE
from pipeline.schema import Spec

_READERS: Final = 2  # parts read at once; more only costs memory


@dataclass(frozen=True)
class Dataset:
    """A finished dataset folder, opened for reading."""

    folder: Path
    manifest: mf.Manifest
    episodes: pl.DataFrame

    @property
    def spec(self) -> Spec:
        """Names, units and ranges of everything in it."""
        return self.manifest.spec

    @property
    def recipe(self) -> Recipe:
        """What it was built from."""
        return self.manifest.recipe

    def blocks(self, part: int) -> Iterator[Block]:
        """The row groups of a part, in order."""
        return read_blocks(self.folder / self.manifest.parts[part].path, self.spec)


def open_dataset(folder: Path) -> Dataset:
    """Open a dataset; DatasetError where the folder is not a whole one. Nothing is verified."""
    manifest = mf.read_manifest(folder)
    path = folder / manifest.episodes.path
    try:
        episodes = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DatasetError(f"{path}: cannot be read as Parquet ({error})") from error
    expected = episodes_schema(manifest.spec)
    if dict(episodes.schema) != expected:
        raise DatasetError(f"{path}: columns differ from the spec of the manifest")
    return Dataset(folder, manifest, episodes)


def sample_decisions(
    dataset: Dataset,
    split: str,
    rng: np.random.Generator,
    *,
    k: int,
    per_episode: int | None = None,
    limit: int | None = None,
    transitions: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Decisions:
    """Decisions of a split as arrays, candidates cut or padded to `k`.

    Of every episode at most `per_episode` decisions, of all at most `limit`, drawn uniformly
    without replacement. The result depends on `rng` alone. DatasetError where the split is empty.
    """
    chosen = dataset.episodes.filter(pl.col("split") == split)
    if chosen.is_empty():
        known = sorted(dataset.episodes["split"].unique())
        raise DatasetError(f"{dataset.folder}: no episodes of split {split!r}; it has {known}")
    wanted = _wanted_steps(chosen["steps"].to_numpy(), per_episode, limit, rng)
    seeds = rng.integers(2**63, size=len(dataset.manifest.parts))
    position = {e: i for i, e in enumerate(chosen["episode"])}
    parts = sorted(chosen["first_part"].unique())

    def read(part: int) -> list[dict[str, NDArray[Any]]]:
        own = np.random.default_rng(seeds[part])
        gather = _Gather(k, position, wanted, own, transitions)
        return [piece for block in dataset.blocks(part) for piece in gather.add(block)]

    pieces: list[dict[str, NDArray[Any]]] = []
    with ThreadPoolExecutor(_READERS) as pool:
        for done, found in enumerate(pool.map(read, parts), start=1):
            pieces.extend(found)
            if progress is not None:
                progress(done, len(parts))
    columns = {name: np.concatenate([p[name] for p in pieces]) for name in pieces[0]}
    return Decisions(episodes=chosen, **columns)


def _wanted_steps(
    steps: NDArray[np.int64],
    per_episode: int | None,
    limit: int | None,
    rng: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """The steps to take of every episode, ascending."""
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
    """Takes the wanted rows out of consecutive blocks.

    A decision and the observation after it can lie in two blocks: then the decision waits.
    """

    def __init__(
        self,
        k: int,
        position: dict[int, int],
        wanted: list[NDArray[np.int64]],
        rng: np.random.Generator,
        transitions: bool,
    ) -> None:
        self._k, self._position, self._wanted = k, position, wanted
        self._rng, self._transitions = rng, transitions
        self._waiting: dict[str, NDArray[Any]] | None = None

    def add(self, block: Block) -> Iterator[dict[str, NDArray[Any]]]:
        if self._waiting is not None:
            first = np.zeros(1, np.int64)
            yield {**self._waiting, **self._next(block, first, self._waiting["terminated"])}
            self._waiting = None
        rows = self._rows(block)
        if len(rows) == 0:
            return
        waits = self._transitions and rows[-1] == len(block) - 1
        if waits:
            self._waiting = self._here(block, rows[-1:])
            rows = rows[:-1]
        if len(rows):
            here = self._here(block, rows)
            if self._transitions:
                here |= self._next(block, rows + 1, here["terminated"])
            yield here

    def _rows(self, block: Block) -> NDArray[np.int64]:
        """Rows of the block that are wanted, in order."""
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

    def _here(self, block: Block, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        candidates, mask, choice, drawn = self._cut(block, rows, block.choice[rows])
        here = {
            "context": block.context[rows],
            "candidates": candidates,
            "mask": mask,
            "drawn": drawn,
            "choice": choice,
            "propensity": block.propensity[rows],
            "reward": block.reward[rows],
            "elapsed_s": block.elapsed_s[rows],
            "terminated": block.terminated[rows],
            "episode": np.array([self._position[int(e)] for e in block.episode[rows]], np.int64),
            "step": block.step[rows],
        }
        return here if block.value is None else {**here, "value": block.value[rows]}

    def _next(
        self, block: Block, rows: NDArray[np.int64], terminated: NDArray[np.bool_]
    ) -> dict[str, NDArray[Any]]:
        none = np.full(len(rows), NO_CHOICE, np.int64)
        candidates, mask, _choice, _drawn = self._cut(block, rows, none)
        mask[terminated] = False
        return {
            "next_context": block.context[rows],
            "next_candidates": candidates,
            "next_mask": mask,
        }

    def _cut(
        self, block: Block, rows: NDArray[np.int64], choice: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
        index = np.full((len(rows), self._k), -1, np.int64)
        position = np.full(len(rows), -1, np.int64)
        drawn = np.zeros(len(rows), np.int64)
        _pick(block.offsets, block.feasible, rows, choice, self._rng, index, position, drawn)
        padding = index < 0
        candidates = (
            block.candidates[index]
            if len(block.candidates)
            else np.zeros((*index.shape, block.candidates.shape[1]), np.float32)
        )
        candidates[padding] = 0.0
        mask = ~padding & (block.feasible[index] if len(block.feasible) else False)
        return candidates, mask, position, drawn


@njit(cache=True, nogil=True)
def _pick(offsets, feasible, rows, choice, rng, index, position, drawn):  # type: ignore[no-untyped-def]
    """Fill index (D, K) with candidates of each row, -1 for padding, ascending.

    Up to K candidates all are kept; of more, the choice and a uniform draw of the other feasible.
    """
    k = index.shape[1]
    for d in range(len(rows)):
        start, stop = offsets[rows[d]], offsets[rows[d] + 1]
        n = stop - start
        for i in range(start, stop):
            drawn[d] += feasible[i]
        if n <= k:
            for i in range(n):
                index[d, i] = start + i
            position[d] = choice[d]
            continue
        pool = np.empty(n, np.int64)
        size = 0
        for i in range(n):
            if feasible[start + i] and i != choice[d]:
                pool[size] = start + i
                size += 1
        taken = 0
        if choice[d] >= 0:
            index[d, 0] = start + choice[d]
            taken = 1
        draws = min(k - taken, size)
        for i in range(draws):
            j = i + int(rng.random() * (size - i))
            pool[i], pool[j] = pool[j], pool[i]
            index[d, taken + i] = pool[i]
        used = taken + draws
        index[d, :used] = np.sort(index[d, :used])
        for i in range(used):
            if choice[d] >= 0 and index[d, i] == start + choice[d]:
                position[d] = i
