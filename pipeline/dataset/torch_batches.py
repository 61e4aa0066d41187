"""Shuffled minibatches of tensors for PyTorch's DataLoader: `Dataset.torch`.

    row groups in the random order of the epoch   [.g4.][..g0..][.g7.][.g2.][..g5..] ...
    decisions of the shards, one after the other  |  rank 0   |  rank 1   |  rank 2  |
    of the workers of a rank                      | w0  | w1  |
    pieces of a worker, at most `buffer` bytes    [.g4.][..g0| a decision is in one shard alone

A worker reads the row groups of its piece, shuffles their decisions and cuts minibatches, which go
on in the next piece. All of its draws follow from the seed, the epoch, the shard and the number of
workers, so a worker that is resumed begins with the piece of its next minibatch.

Workers use Arrow without threads, NumPy and compiled loops. They never call polars, whose threads
do not survive a fork.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, get_worker_info

from hindcast.pipeline.dataset.batches import BatchOptions, RowGroups, joined, row_groups
from hindcast.pipeline.dataset.columns import NO_CHOICE, rows_by_episode
from hindcast.pipeline.dataset.decisions import ON_REQUEST
from hindcast.pipeline.dataset.folder import DatasetFolder
from hindcast.pipeline.dataset.shuffle_buffer import ShuffleBuffer
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.storage.location import is_remote, location

Ints = NDArray[np.int64]
_ALIGNED: Final = 8  # bytes at which a view may begin
_NAMES: Final = {of: name for name, of in ON_REQUEST.items()}


class _Piece(NamedTuple):
    """Decisions `begin` to `end` of those that a row group has of the split."""

    part: int
    group: int
    decisions: int  # of the split in the whole row group
    begin: int
    end: int


class TorchBatches(IterableDataset[dict[str, torch.Tensor]]):
    """The minibatches of one shard of a split, as dictionaries of tensors by name.

    Made by `Dataset.torch`. A DataLoader takes it with `batch_size=None`, any number of workers,
    and either start method. `len` is the number of minibatches of an epoch.
    """

    def __init__(
        self,
        dataset: DatasetFolder,
        options: BatchOptions,
        shard: tuple[int, int],
        seed: int,
        *,
        drop_last: bool,
    ) -> None:
        super().__init__()
        self._rank, self._ranks = shard
        if not 0 <= self._rank < self._ranks:
            raise InputError(f"shard is {shard}, expected (i, n) with 0 <= i < n")
        if seed < 0:
            raise InputError(f"seed is {seed}, expected 0 or more")
        groups = row_groups(dataset, options)
        self._wanted = groups.number >= 0
        with ThreadPoolExecutor(options.readers) as pool:
            found = np.array(groups.listed(pool), np.int64)
        decisions = _decisions_of(dataset, found, self._wanted)
        if decisions.sum() != dataset.episodes(options.split)["steps"].sum():
            raise groups.unlike("fewer")
        self._found, self._decisions = found[decisions > 0], decisions[decisions > 0]
        # a connection to a store survives no fork and cannot be pickled
        folder = dataset.folder
        self._folder = str(folder) if is_remote(folder) else folder
        # a worker gets no table, no numbers and no footers: they may be large, and it needs none
        recipe = replace(dataset.recipe, places={}, origin=None, base=None)
        manifest = replace(dataset.manifest, recipe=recipe, appended=())
        nothing = replace(
            dataset, folder=Path(), manifest=manifest, _episodes=dataset.episodes().clear()
        )
        self._groups = replace(
            groups, dataset=nothing, number=groups.number[:0], footers={}, threads=False
        )
        self._size, self._buffer, self._seed = options.size, options.buffer, seed
        total = int(self._decisions.sum())
        whole, rest = divmod(total, self._size)
        self._batches = whole // self._ranks * self._ranks if drop_last else whole + bool(rest)
        if not self._batches:
            raise InputError(
                f"drop_last leaves nothing of {total:,} decisions, since {self._ranks} shards with "
                f"a minibatch of {self._size} need {self._ranks * self._size:,}"
            )
        self._epoch = _shared(0)  # so that persistent workers see it
        self._start: tuple[int, int] | None = None  # epoch and minibatches of it to leave out
        self._resumed = _shared(-1)  # the seed of the pass that left them out
        self._at = (0, 0)

    def __len__(self) -> int:
        """Return the number of minibatches of the shard in an epoch."""
        first, last = self._of_rank()
        return last - first

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next passes; call it before each pass, as for samplers."""
        if epoch < 0:
            raise InputError(f"epoch is {epoch}, expected 0 or more")
        if self._start is not None and self._start[0] != epoch:
            self._start = None
        if self._start is None:
            self._at = (epoch, 0)
        self._epoch[0] = epoch

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the number of minibatches of it that were given."""
        epoch, position = self._start or self._at
        return {"epoch": epoch, "position": position, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begin the next pass where `state` was taken.

        Without a StatefulDataLoader, which keeps the state of each worker, give `epoch` and
        `position`, the number of minibatches that the DataLoader has given.

        Raises:
            InputError: The state is of other data, another order or another number of workers.
        """
        for name, value in self._identity().items():
            if name in state and state[name] != value:
                raise InputError(
                    f"this state was taken with {name} {state[name]!r}, but it is {value!r} now; "
                    "the minibatches that were given cannot be found again"
                )
        try:
            epoch, position = int(state["epoch"]), int(state["position"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the state {state!r} lacks an epoch and a position") from error
        if epoch < 0 or not 0 <= position <= len(self):
            raise InputError(
                f"epoch {epoch} and position {position}: expected an epoch from 0 and a position "
                f"from 0 to {len(self)}"
            )
        if get_worker_info() is None:
            self._epoch[0] = epoch
            self._resumed[0] = -1
        self._start = self._at = (epoch, position)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        info = get_worker_info()
        self._at = self._next_start(info)  # a state may be asked for before the first minibatch
        return self._pass(*self._at, *((0, 1) if info is None else (info.id, info.num_workers)))

    def _pass(
        self, epoch: int, position: int, worker: int, workers: int
    ) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the minibatches of a worker, without those among the first `position` of all."""
        first, last = self._of_rank()
        counts = [(last - first - w + workers - 1) // workers for w in range(workers)]
        begin = first + sum(counts[:worker])
        given = max(0, (position - worker + workers - 1) // workers)  # they are given in turn
        key = f"torch {epoch}, shard {self._rank}/{self._ranks}, worker {worker}/{workers}"
        dataset = replace(self._groups.dataset, folder=location(self._folder))
        groups = replace(self._groups, dataset=dataset)
        for batch in self._cut(groups, epoch, key, (begin, begin + counts[worker]), given):
            given += 1
            self._at = (epoch, (given - 1) * workers + worker + 1)
            yield batch

    def _next_start(self, info: Any) -> tuple[int, int]:
        """Return the epoch of the pass that begins, and the minibatches that it leaves out.

        Workers are made anew from the main process's copy for every pass. The first pass after
        `load_state_dict` is told from the later ones by its seed, which the workers share.
        """
        start, self._start = self._start, None
        if start is None:
            return int(self._epoch[0]), 0
        if info is not None:
            of_pass = info.seed - info.id
            if int(self._resumed[0]) not in {-1, of_pass}:
                return int(self._epoch[0]), 0
            self._resumed[0] = of_pass
        return start

    def _identity(self) -> dict[str, Any]:
        """Return the settings that a state must share, beside the number of workers."""
        info = get_worker_info()
        dataset = self._groups.dataset
        return {
            "digest": dataset.manifest.digest,
            "decisions": int(self._decisions.sum()),
            "batch": self._size,
            "buffer": self._buffer,
            "seed": self._seed,
            "shard": [self._rank, self._ranks],
            **({} if info is None else {"workers": info.num_workers}),
        }

    def _of_rank(self) -> tuple[int, int]:
        """Return the first minibatch of this shard, and the first one after it."""
        first = self._rank * self._batches // self._ranks
        return first, (self._rank + 1) * self._batches // self._ranks

    def _cut(
        self, groups: RowGroups, epoch: int, key: str, batches: tuple[int, int], given: int
    ) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the minibatches from the first to the last but the `given` first ones."""
        begin, end = batches[0] * self._size, batches[1] * self._size
        pending: list[dict[str, NDArray[Any]]] = []
        have, left_out, number = 0, given * self._size, given
        for piece, chunk in enumerate(self._chunks(epoch, begin, end)):
            decisions = sum(p.end - p.begin for p in chunk)
            if left_out >= decisions:
                left_out -= decisions
                continue
            held = _poured(groups, chunk, self._wanted)
            held.shuffle(generator(self._seed, key, piece))
            held.draw(left_out)
            left_out = 0
            while len(held):
                # a draw for each part of a minibatch, whatever was given before
                rng = generator(self._seed, f"{key}, cut", number, have)
                pending.append(held.gather(held.draw(min(self._size - have, len(held))), rng))
                have += len(pending[-1]["choice"])
                if have == self._size:
                    yield _tensors(joined(pending))
                    pending, have, number = [], 0, number + 1
        if pending:
            yield _tensors(joined(pending))

    def _chunks(self, epoch: int, begin: int, end: int) -> Iterator[list[_Piece]]:
        """Yield decisions `begin` to `end` of the epoch as pieces, about `buffer` bytes each."""
        order = generator(self._seed, "torch", epoch).permutation(len(self._found))
        ends = np.cumsum(self._decisions[order])
        each = np.array(self._groups.row_bytes)
        chunk: list[_Piece] = []
        room = self._buffer
        for at in range(int(np.searchsorted(ends, begin, side="right")), len(order)):
            before = int(ends[at] - self._decisions[order[at]])
            if before >= end:
                break
            part, group, _first, *size = map(int, self._found[order[at]])
            needed = int(size @ each)
            if chunk and needed > room:
                yield chunk
                chunk, room = [], self._buffer
            room -= needed
            chunk.append(
                _Piece(
                    part, group, int(self._decisions[order[at]]), max(0, begin - before),
                    min(int(ends[at]), end) - before,
                )
            )  # fmt: skip
        if chunk:
            yield chunk


def _shared(value: int) -> torch.Tensor:
    """Return a number (1,) that the process and its workers share."""
    number = torch.tensor([value])
    number.share_memory_()  # type: ignore[no-untyped-call] # of PyTorch
    return number


def _decisions_of(dataset: DatasetFolder, found: Ints, wanted: NDArray[np.bool_]) -> Ints:
    """Return the number of decisions (G,) of wanted episodes (E,) in each row group found (G, 5).

    Episodes lie one after the other in the parts, each with its decisions and its closing row, if
    it has one.
    """
    table = dataset.episodes()
    steps = table["steps"].to_numpy()
    rows = np.concatenate([[0], np.cumsum(rows_by_episode(table, dataset.spec))])
    sums = np.concatenate([[0], np.cumsum(steps * wanted)])
    of_parts = np.cumsum([0, *(part.rows for part in dataset.manifest.parts)])

    def before(row: Ints) -> Ints:
        episode = np.clip(np.searchsorted(rows, row, side="right") - 1, 0, len(steps) - 1)
        inside = np.minimum(row - rows[episode], steps[episode]) * wanted[episode]
        return np.asarray(sums[episode] + inside, np.int64)

    first = of_parts[found[:, 0]] + found[:, 2]
    return before(first + found[:, 3]) - before(first)


def _poured(groups: RowGroups, chunk: list[_Piece], wanted: NDArray[np.bool_]) -> ShuffleBuffer:
    """Return a buffer with the decisions of some pieces, of wanted episodes (E,)."""
    read = [groups.read(piece.part, piece.group) for piece in chunk]
    blocks = [block for pieces in read for block, _ in pieces]
    held = groups.buffer(sum(map(len, blocks)), sum(int(block.offsets[-1]) for block in blocks))
    for piece, pieces in zip(chunk, read, strict=True):
        for at, (block, sums) in enumerate(pieces):
            number = np.full(len(block), -1)  # also of the row after a row group
            if at == 0:
                inside = (block.episode >= 0) & (block.episode < len(wanted))
                own = np.flatnonzero((block.choice != NO_CHOICE) & inside)
                own = own[wanted[block.episode[own]]]
                if len(own) != piece.decisions or not inside.all():
                    raise groups.unlike("fewer" if len(own) < piece.decisions else "more")
                own = own[piece.begin : piece.end]
                number[own] = block.episode[own]
            held.pour(block, number, sums)
    return held


class _Batch(dict[str, torch.Tensor]):
    """Minibatch that goes from a worker to the main process as one tensor.

    PyTorch sends every tensor as a file of shared memory of its own, which takes longer than
    filling it. The main process gets a plain dictionary of views.
    """

    def __copy__(self) -> "_Batch":
        return _Batch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        sizes = [t.numel() * t.element_size() for t in self.values()]
        offsets = np.cumsum([0, *(-(-size // _ALIGNED) * _ALIGNED for size in sizes)]).tolist()
        flat = torch.empty(offsets[-1], dtype=torch.uint8)
        layout = []
        for (name, tensor), size, at in zip(self.items(), sizes, offsets[:-1], strict=True):
            flat[at : at + size] = tensor.reshape(-1).view(torch.uint8)
            layout.append((name, tensor.dtype, tuple(tensor.shape), at, size))
        return _views, (flat, layout)


def _views(
    flat: torch.Tensor, layout: list[tuple[str, torch.dtype, tuple[int, ...], int, int]]
) -> dict[str, torch.Tensor]:
    return {
        name: flat[at : at + size].view(dtype).reshape(shape)
        for name, dtype, shape, at, size in layout
    }


def _tensors(columns: Mapping[str, NDArray[Any]]) -> _Batch:
    return _Batch({_NAMES.get(n, n): torch.from_numpy(array) for n, array in columns.items()})
