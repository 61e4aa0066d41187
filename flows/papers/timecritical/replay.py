"""Replay of whole episodes, of which only the choices are saved with the state of a training.

    slot      0        1        2       ...       holding // room - 1
    episode   e0       e1       e2      ...       the next one replaces the oldest
    rows      0 .. room - 1 | room .. 2 room - 1 | ...       an episode may leave rows unused

50,000 rows of 529 numbers are 106 MB, which would be written with every state. Windows and choices
take .4 MB, and a resumed run plays 100 episodes again in a quarter of a second.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hindcast.flows.papers.timecritical.rollouts import Valued

Again = Callable[[int, NDArray[np.int64]], Valued]  # (window, choices) -> the same episode


class EpisodeReplay(nn.Module):
    """Last episodes, as rows of inputs, cluster and value; a torch module so that it is saved.

    Args:
        holding: Maximal number of rows; as many episodes of `room` rows are kept as fit.
        room: Rows per episode.
        width: Width of an input row.
        again: Function that plays an episode again.
    """

    def __init__(self, holding: int, room: int, width: int, again: Again) -> None:
        super().__init__()
        slots = max(holding // room, 1)
        self._room, self._again = room, again
        self.windows: torch.Tensor
        self.choices: torch.Tensor
        self.lengths: torch.Tensor
        self.added: torch.Tensor
        self.register_buffer("windows", torch.zeros(slots, dtype=torch.int64))
        self.register_buffer("choices", torch.zeros((slots, room), dtype=torch.int32))
        self.register_buffer("lengths", torch.zeros(slots, dtype=torch.int64))
        self.register_buffer("added", torch.zeros((), dtype=torch.int64))
        self._inputs = np.zeros((slots * room, width), np.float32)
        self._clusters = np.zeros(slots * room, np.int64)
        self._values = np.zeros(slots * room, np.float32)
        self.register_load_state_dict_post_hook(_make_again)  # type: ignore[no-untyped-call]

    @property
    def capacity(self) -> int:
        """Largest number of rows that the replay can hold."""
        return len(self.lengths) * self._room

    def __len__(self) -> int:
        return int(self.lengths.sum())

    def add(self, window: int, played: Valued) -> None:
        """Add an episode, which replaces the oldest one if the replay is full."""
        slot, steps = int(self.added) % len(self.lengths), len(played.choices)
        self.windows[slot], self.lengths[slot] = window, steps
        self.choices[slot] = 0
        self.choices[slot, :steps] = torch.from_numpy(played.choices.astype(np.int32))
        self.added += 1
        self._hold(slot, played)

    def draw(
        self, count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
        """Return `count` different rows: inputs (N, I), clusters (N,), values (N,)."""
        lengths = self.lengths.numpy()
        ends = np.cumsum(lengths)
        drawn = rng.choice(int(ends[-1]), count, replace=False)
        slot = np.searchsorted(ends, drawn, side="right")
        rows = slot * self._room + drawn - (ends - lengths)[slot]
        return self._inputs[rows], self._clusters[rows], self._values[rows]

    def _hold(self, slot: int, played: Valued) -> None:
        rows = slice(slot * self._room, slot * self._room + len(played.choices))
        self._inputs[rows] = played.inputs
        self._clusters[rows] = played.clusters
        self._values[rows] = played.values

    def make_again(self) -> None:
        """Fill the rows by playing every episode again with its saved choices."""
        for slot in range(len(self.lengths)):
            choices = self.choices[slot, : self.lengths[slot]].numpy().astype(np.int64)
            if len(choices):
                self._hold(slot, self._again(int(self.windows[slot]), choices))


def _make_again(replay: nn.Module, _missing: object) -> None:
    assert isinstance(replay, EpisodeReplay)
    replay.make_again()
