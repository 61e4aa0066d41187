"""Folders of `hindcast export --to d3rlpy`, read into a ReplayBuffer or mini-batches of d3rlpy.

    replay_buffer    observations are vectors (C + K * F + K,): context, candidates, mask
    mini_batches     observations are [context (B, C), candidates (B, K, F), mask (B, K)], and the
                     image (B, ...) if there is one; every decision has its next observation

    import numpy as np
    from hindcast.policies.offline.d3rlpy_replay_buffer import mini_batches, replay_buffer
    buffer = replay_buffer("demo/d3rlpy")
    for batch in mini_batches("demo/d3rlpy", 256, np.random.default_rng(0)): algorithm.update(batch)

d3rlpy's own buffer drops the last decision of a truncated episode, and its sampler is a loop in
Python. `mini_batches` gathers rows of memory-mapped arrays instead. d3rlpy itself masks no choice:
`hindcast.policies.offline.q_learning.masked_q` shows how to do so.
"""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.exports.d3rlpy import SHAPE
from hindcast.pipeline.storage.files import read_json

_NAMES: Final = ("observations", "actions", "rewards", "terminals", "timeouts")


@dataclass(frozen=True)
class Arrays:
    """The arrays of an export, mapped into memory and read-only.

    Attributes:
        observations: (N, C + K * F + K) float32.
        actions: (N,) int64.
        rewards: (N,) float32.
        terminals: (N,) float32.
        timeouts: (N,) float32.
        propensity: (N,) float32.
        probabilities: (N, K) float32.
        episode: (N,) int64.
        last_observations: (E, C + K * F + K) float32, of the episodes in order.
        images: (N, ...) uint8, or None.
        last_images: (E, ...) uint8, or None.
        context: Number C of context features.
        candidates: Number K of candidates.
        features: Number F of candidate features.
    """

    observations: NDArray[np.float32]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32]
    terminals: NDArray[np.float32]
    timeouts: NDArray[np.float32]
    propensity: NDArray[np.float32]
    probabilities: NDArray[np.float32]
    episode: NDArray[np.int64]
    last_observations: NDArray[np.float32]
    images: NDArray[np.uint8] | None
    last_images: NDArray[np.uint8] | None
    context: int
    candidates: int
    features: int

    def __len__(self) -> int:
        return len(self.actions)


def open_arrays(folder: Path | str) -> Arrays:
    """Open an export.

    Raises DatasetError if the folder is no export, or if its arrays do not fit together.
    """
    folder = Path(folder)
    shape = read_json(folder / SHAPE)
    try:
        c, f = len(shape["context_features"]), len(shape["candidate_features"])
        k, image = int(shape["candidates"]), tuple(map(int, shape["image_shape"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DatasetError(
            f"{folder / SHAPE}: damaged ({type(error).__name__}: {error})"
        ) from error
    size = c + k * f + k
    actions = _array(folder, "actions", (None,), np.int64)
    n = len(actions)
    floats = {name: _array(folder, name, (n,), np.float32)
              for name in ("rewards", "terminals", "timeouts", "propensity")}  # fmt: skip
    return Arrays(
        observations=_array(folder, "observations", (n, size), np.float32),
        actions=actions,
        probabilities=_array(folder, "probabilities", (n, k), np.float32),
        episode=_array(folder, "episode", (n,), np.int64),
        last_observations=_array(folder, "last_observations", (None, size), np.float32),
        images=_array(folder, "images", (n, *image), np.uint8) if image else None,
        last_images=_array(folder, "last_images", (None, *image), np.uint8) if image else None,
        context=c, candidates=k, features=f, **floats,
    )  # fmt: skip


def _array(folder: Path, name: str, shape: tuple[int | None, ...], dtype: type) -> NDArray[Any]:
    path = folder / f"{name}.npy"
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DatasetError(f"{path}: cannot be read as an array ({error})") from error
    expected = tuple("N" if n is None else n for n in shape)
    fits = array.ndim == len(shape) and all(
        n in {None, m} for n, m in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != dtype:
        raise DatasetError(
            f"{path}: is {array.dtype} {array.shape}, expected {np.dtype(dtype)} {expected}"
        )
    return array


def replay_buffer(folder: Path | str) -> Any:
    """Return d3rlpy's MDPDataset, a ReplayBuffer, of vector observations, held in memory.

    Raises DatasetError if the folder is no export of this format.
    """
    arrays = open_arrays(folder)
    _load_d3rlpy()
    from d3rlpy import ActionSpace
    from d3rlpy.dataset import MDPDataset

    return MDPDataset(
        *(np.array(getattr(arrays, name)) for name in _NAMES),
        action_space=ActionSpace.DISCRETE,
        action_size=arrays.candidates,
    )


def mini_batches(folder: Path | str, size: int, rng: np.random.Generator) -> Iterator[Any]:
    """Yield d3rlpy's TransitionMiniBatch of `size` decisions without end, drawn with replacement.

    A mask after the end of an episode is all zero. Rewards are as recorded, and the interval is one
    decision. Raises DatasetError if the folder is no export of this format.
    """
    return _drawn(open_arrays(folder), size, rng)


def _drawn(arrays: Arrays, size: int, rng: np.random.Generator) -> Iterator[Any]:
    """Yield minibatches of `size` drawn decisions without end."""
    _load_d3rlpy()
    from d3rlpy.dataset import TransitionMiniBatch

    # True at the last decision of an episode.
    is_last = np.append(np.diff(arrays.episode) != 0, True)
    number = np.cumsum(is_last) - is_last  # of each row's episode, in order
    while True:
        rows = rng.integers(0, len(arrays), size)
        ends = is_last[rows]
        following = np.where(ends, rows, rows + 1)
        after = arrays.observations[following]
        after[ends] = arrays.last_observations[number[rows[ends]]]
        ended = arrays.terminals[rows]
        after[ended > 0, -arrays.candidates :] = 0.0
        images: tuple[list[Any], list[Any]] = ([], [])
        if arrays.images is not None and arrays.last_images is not None:
            next_images = arrays.images[following]
            next_images[ends] = arrays.last_images[number[rows[ends]]]
            images = [arrays.images[rows].astype(np.float32)], [next_images.astype(np.float32)]
        action = arrays.actions[rows, None].astype(np.float32)
        yield TransitionMiniBatch(
            observations=[*_divided(arrays, arrays.observations[rows]), *images[0]],
            actions=action,
            rewards=arrays.rewards[rows, None],
            next_observations=[*_divided(arrays, after), *images[1]],
            next_actions=action,  # read by SARSA-like algorithms only
            terminals=ended[:, None],
            intervals=np.ones((size, 1), np.float32),
            transitions=[],
        )


def _divided(arrays: Arrays, rows: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Return [context (B, C), candidates (B, K, F), mask (B, K)] of vectors."""
    c, k, f = arrays.context, arrays.candidates, arrays.features
    candidates = rows[:, c : c + k * f].reshape(len(rows), k, f)
    return [rows[:, :c], candidates, rows[:, c + k * f :]]


def _load_d3rlpy() -> None:
    """Load d3rlpy without side effects of its import."""
    importlib.import_module("hindcast.policies.offline.q_learning.masked_q")
