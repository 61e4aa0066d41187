"""Shuffled minibatches of a dataset that need not fit into memory: `Dataset.batches`.

    footers of the parts -> row groups in random order -> readers -> ShuffleBuffer -> minibatches

All random draws are made in the caller's thread, in one order, so the number of readers changes
nothing.
"""

import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hindcast.pipeline.dataset.columns import NO_CHOICE, SKIPPABLE
from hindcast.pipeline.dataset.decisions import ON_REQUEST, Columns, Decisions
from hindcast.pipeline.dataset.folder import DatasetFolder
from hindcast.pipeline.dataset.part import Block, ends_alone, open_part, read_block
from hindcast.pipeline.dataset.reward_sums import Discount, carried_sums, sums_of
from hindcast.pipeline.dataset.shuffle_buffer import ShuffleBuffer, row_bytes
from hindcast.pipeline.errors import DatasetError, InputError, did_you_mean
from hindcast.pipeline.simulation.spec import Spec

_REFILL: Final = 0.5  # refill when this share of the decisions of the last shuffle is left
_FOOTERS: Final = 256  # footers kept in memory; a real one takes 100 kB
# Rows of a part, and the sums of rewards from each of them on, by the field that holds them.
Piece: TypeAlias = tuple[Block, Mapping[str, NDArray[np.float64]]]


@dataclass(frozen=True)
class BatchOptions:
    """The options of `Dataset.batches`, which explains them.

    Raises InputError for a number that is out of range.
    """

    size: int
    split: str
    k: int | None
    transitions: bool
    images: bool
    buffer: int
    readers: int
    repeat: bool
    columns: Collection[str]
    discount: float | None
    per_second: bool

    def __post_init__(self) -> None:
        for name in ("size", "k", "readers", "buffer"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}, expected at least 1")


def batches(
    dataset: DatasetFolder, rng: np.random.Generator, options: BatchOptions
) -> Iterator[Decisions]:
    """Check the options, and return the minibatches of `Dataset.batches`."""
    _refuse_worker()
    groups, episodes = row_groups(dataset, options), dataset.episodes(options.split)
    own = np.random.default_rng(rng.integers(2**63, size=4))
    passes = _Passes(groups, own, options)

    def generate() -> Iterator[Decisions]:
        while True:
            for found in passes.run(int(episodes["steps"].sum())):
                yield Decisions(episodes=episodes, **found)
            if not options.repeat:
                return

    return generate()


def _refuse_worker() -> None:
    """Raise InputError in a worker of a DataLoader.

    Every worker would yield all decisions, and one that was forked would hang in polars.
    """
    loaders = sys.modules.get("torch.utils.data")
    if loaders is not None and loaders.get_worker_info() is not None:
        raise InputError(
            "Dataset.batches was called in a worker of a DataLoader, which would repeat all "
            "decisions in every worker; expected DataLoader(dataset.torch(...), batch_size=None, "
            "num_workers=...)"
        )


def row_groups(dataset: DatasetFolder, options: BatchOptions) -> "RowGroups":
    """Return the row groups with decisions of the split, numbered by the split's episodes.

    Raises InputError for a column or a discount that cannot be used, DatasetError for the split.
    """
    more = frozenset(_field(name, dataset.spec) for name in _listed(options.columns)) - {""}
    discounts = _discounts(more, dataset.spec, options)
    episodes = dataset.episodes(options.split)
    number = np.full(dataset.episodes().height, -1, np.int64)
    number[episodes["episode"].to_numpy()] = np.arange(episodes.height)
    columns = Columns(options.k, options.transitions, options.images, more)
    return RowGroups(dataset, number, columns, discounts)


def _listed(columns: Collection[str]) -> Collection[str]:
    """Return the names; a text alone would be read as one name per letter."""
    if isinstance(columns, str):
        raise InputError(f"columns is {columns!r}, expected a list of names: [{columns!r}]")
    return columns


def _field(name: str, spec: Spec) -> str:
    """Return the field of Decisions that a column is added in; empty if it is there anyway."""
    if name in ON_REQUEST:
        return ON_REQUEST[name]
    always = [f.name for f in fields(Decisions) if f.name not in ON_REQUEST.values()]
    always = [n for n in always if "image" not in n and (n != "value" or spec.valued)]
    if name in always:
        return ""
    raise InputError(f"unknown column {name!r}; {did_you_mean(name, [*ON_REQUEST, *always])}")


def _discounts(more: Collection[str], spec: Spec, options: BatchOptions) -> dict[str, Discount]:
    """Return the discount of each sum of rewards that is wanted."""
    discount, per_second = options.discount, options.per_second
    if "discounted" not in more and (discount is not None or per_second):
        raise InputError('a discount is given, but not used; add "discounted_return" to columns')
    if discount is not None and not 0.0 <= discount <= 1.0:
        raise InputError(f"discount is {discount}, expected 0 to 1")
    known = {
        "to_go": Discount(1.0),
        "discounted": Discount(spec.discount if discount is None else discount, per_second),
    }
    return {name: known[name] for name in known if name in more}


@dataclass
class _Passes:
    """Passes over the decisions of the episodes of a split."""

    groups: "RowGroups"
    rng: np.random.Generator
    options: BatchOptions

    def run(self, decisions: int) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the columns of Decisions of one pass over all decisions, by minibatch."""
        with ThreadPoolExecutor(self.options.readers) as pool:
            groups, held = self._plan(pool)
            order = deque(groups[i] for i in self.rng.permutation(len(groups)))
            coming = _Coming(pool, self.options.readers, self.groups.read, order)
            refill_at = 0
            try:
                while decisions:
                    pieces: list[dict[str, NDArray[Any]]] = []
                    wanted = min(self.options.size, decisions)
                    decisions -= wanted
                    while wanted:
                        if coming and len(held) <= refill_at:
                            self._refill(held, coming)
                            refill_at = int(len(held) * _REFILL)
                            continue
                        if len(held) == 0:
                            raise self.groups.unlike("fewer")
                        room = len(held) - (refill_at if coming else 0)
                        pieces.append(self._take(held, min(wanted, room)))
                        wanted -= len(pieces[-1]["choice"])
                    yield joined(pieces)
                while coming:
                    self._refill(held, coming)
                if len(held):
                    raise self.groups.unlike("more")
            finally:
                coming.cancel()

    def _plan(self, pool: ThreadPoolExecutor) -> tuple[list[tuple[int, int]], ShuffleBuffer]:
        """Return the (part, row group) pairs with episodes of the split, and a buffer for them."""
        found = self.groups.listed(pool)
        sizes = np.array([size for _part, _group, _first, *size in found])
        total, largest = sizes.sum(axis=0), sizes.max(axis=0)
        each = self.groups.row_bytes
        share = min(1.0, self.options.buffer / float(total @ each))
        # a group may bring the row after it, which is no larger than the group that it begins
        room = largest if share < 1.0 else total
        least = room * (1 + self.groups.columns.transitions)
        rows, candidates = np.maximum(share * total, least).astype(np.int64)
        held = self.groups.buffer(int(rows) + 1, int(candidates))
        return [(part, group) for part, group, *_ in found], held

    def _refill(self, held: ShuffleBuffer, coming: "_Coming") -> None:
        """Pour row groups into the buffer, in order, as long as they fit."""
        held.squeeze()
        begun = len(held)
        while coming:
            pieces = coming.first()
            rows = sum(len(block) for block, _ in pieces)
            candidates = sum(int(block.offsets[-1]) for block, _ in pieces)
            if not held.fits(rows, candidates):
                if begun == len(held) == 0 and not held.used:
                    raise self.groups.unlike("more")
                break
            coming.pop()
            for at, (block, sums) in enumerate(pieces):
                numbers = self.groups.numbers(block) if at == 0 else np.full(len(block), -1)
                held.pour(block, numbers, sums)
        held.shuffle(self.rng)

    def _take(self, held: ShuffleBuffer, count: int) -> dict[str, NDArray[Any]]:
        return held.gather(held.draw(count), self.rng)


@dataclass
class RowGroups:
    """The row groups of a dataset that have decisions of a split.

    `number` maps the number of an episode in the dataset to the one that its decisions get; it is
    -1 for an episode of another split.
    """

    dataset: DatasetFolder
    number: NDArray[np.int64]
    columns: Columns
    discounts: Mapping[str, Discount]
    threads: bool = True  # True if Arrow decodes the columns of a row group in threads
    footers: dict[int, pq.FileMetaData] = field(default_factory=dict)
    carried: dict[int, dict[str, NDArray[np.float64]]] = field(default_factory=dict)  # by part

    @property
    def row_bytes(self) -> tuple[int, int]:
        """Bytes in a buffer of a row without its candidates, and of a candidate."""
        return row_bytes(self.columns, self.dataset.spec)

    def buffer(self, rows: int, candidates: int) -> ShuffleBuffer:
        """Return an empty buffer with room for `rows` rows and `candidates` candidates."""
        return ShuffleBuffer(self.columns, self.dataset.spec, rows, candidates)

    def listed(self, pool: ThreadPoolExecutor) -> list[tuple[int, int, int, int, int]]:
        """Return (part, group, its first row in the part, rows, candidates) of each of them."""
        table, wanted = self.dataset.episodes(), self.number >= 0
        ends = [table[name].to_numpy()[wanted] for name in ("first_part", "last_part")]
        parts = np.unique(np.concatenate(ends))
        found = [group for groups in pool.map(self._groups_of, parts) for group in groups]
        if not found:
            raise self.unlike("fewer")
        return found

    def numbers(self, block: Block) -> NDArray[np.int64]:
        """Return `number` for each row of a block (R,)."""
        episode = block.episode
        if len(episode) and not 0 <= episode.min() <= episode.max() < len(self.number):
            raise self.unlike("more")
        return self.number[episode]

    def _groups_of(self, part: int) -> list[tuple[int, int, int, int, int]]:
        """Return the row groups of a part with episodes of the split, as `listed` does."""
        footer = self._footer(part)
        first = footer.row_group(0) if footer.num_row_groups else None
        names = [first.column(c).path_in_schema for c in range(first.num_columns)] if first else []
        found, before = [], 0
        for index in range(footer.num_row_groups):
            group = footer.row_group(index)
            if self._has_any(group.column(names.index("episode")).statistics):
                candidates = group.column(names.index("feasible.list.element")).num_values
                found.append((part, index, before, group.num_rows, candidates))
            before += group.num_rows
        if found and self.discounts and part not in self.carried:
            path = self.dataset.part(part)
            with closing(open_part(path, self.dataset.spec, footer)) as file:
                self.carried[part] = carried_sums(file, self.discounts, path)
        return found

    def _has_any(self, episodes: Any) -> bool:
        """Return whether a row group whose `episode` has these statistics may be of the split."""
        if episodes is None or not episodes.has_min_max:
            return True
        return bool((self.number[max(episodes.min, 0) : episodes.max + 1] >= 0).any())

    def _footer(self, part: int) -> pq.FileMetaData:
        """Return the checked footer of a part; the first few hundred footers are kept."""
        if part not in self.footers:
            with closing(open_part(self.dataset.part(part), self.dataset.spec)) as file:
                footer = file.metadata
            if len(self.footers) >= _FOOTERS:
                return footer
            self.footers[part] = footer
        return self.footers[part]

    def read(self, part: int, group: int) -> list[Piece]:
        """Read a row group, and the next row if its last decision is not the episode's last."""
        path, spec = self.dataset.part(part), self.dataset.spec
        needed = {name for name, of in ON_REQUEST.items() if of in self.columns.more}
        without = SKIPPABLE - needed - ({"image"} if self.columns.images else set())
        with closing(open_part(path, spec, self._footer(part))) as file:
            read = partial(read_block, file, path=path, spec=spec, without=without,
                           threads=self.threads)  # fmt: skip
            blocks = [read(group)]
            end = blocks[0].choice == NO_CHOICE
            end |= ends_alone(blocks[0].step, blocks[0].terminated, spec)
            goes_on = len(end) > 0 and not end[-1]
            if self.columns.transitions and goes_on:
                if group + 1 == file.num_row_groups:
                    raise DatasetError(
                        f"{path}: this part ends in the middle of an episode; see `hindcast verify`"
                    )
                blocks.append(read(group + 1, first=True))
        carried = {
            name: float(values[group]) for name, values in self.carried.get(part, {}).items()
        }
        sums = sums_of(blocks[0], self.discounts, carried) if len(blocks[0]) else {}
        # the row after a row group is only an observation here
        return list(zip(blocks, [sums, {}], strict=False))

    def unlike(self, which: str) -> DatasetError:
        """Return the error for parts with more or fewer decisions than episodes.parquet says."""
        return DatasetError(
            f"{self.dataset.folder}: the parts hold {which} decisions of the split than the table "
            "of episodes says; see `hindcast verify`"
        )


class _Coming:
    """Row groups that are read ahead, in order."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        ahead: int,
        read: Callable[[int, int], list[Piece]],
        order: deque[tuple[int, int]],
    ) -> None:
        self._pool, self._ahead, self._read, self._order = pool, ahead, read, order
        self._reading: deque[Future[list[Piece]]] = deque()
        self._begin()

    def __len__(self) -> int:
        return len(self._order) + len(self._reading)

    def _begin(self) -> None:
        while self._order and len(self._reading) < self._ahead:
            self._reading.append(self._pool.submit(self._read, *self._order.popleft()))

    def first(self) -> list[Piece]:
        """Return the next row group, after waiting until it is read."""
        return self._reading[0].result()

    def pop(self) -> None:
        """Drop the next row group."""
        self._reading.popleft()
        self._begin()

    def cancel(self) -> None:
        """Cancel all reading that has not begun."""
        self._order.clear()
        for future in self._reading:
            future.cancel()


def joined(pieces: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Concatenate pieces of a minibatch, padded to the largest K among them."""
    if len(pieces) == 1:
        return pieces[0]
    k = max(piece["mask"].shape[1] for piece in pieces)
    for piece in pieces:
        for name in ("candidates", "mask", "next_candidates", "next_mask", "probabilities"):
            if name in piece and (more := k - piece[name].shape[1]):
                widths = [(0, 0), (0, more)] + [(0, 0)] * (piece[name].ndim - 2)
                piece[name] = np.pad(piece[name], widths)
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
