"""Buffer of the last iterations' decisions, with an advantage of every candidate.

    slot     0    1    2   ... keep - 1        iteration i, counted from 1, is in (i - 1) % keep
             i3   i1   i2                      after three iterations of keep = 2: i3, i2

Every array is a module buffer of variable length, so that a resumed training continues from it, bit
for bit.
"""

import dataclasses
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hindcast.policies.online.choices import join
from hindcast.policies.rollouts.trajectories import NetworkInputs

Floats = NDArray[np.float64]

_FIELDS = tuple(field.name for field in dataclasses.fields(NetworkInputs))


class RecentBuffer(nn.Module):
    """Decisions and advantages of the last `keep` iterations."""

    def __init__(self, keep: int) -> None:
        super().__init__()
        self.slots = nn.ModuleList(_Slot() for _ in range(keep))

    def add(self, iteration: int, inputs: NetworkInputs, advantage: Floats) -> None:
        """Replace the oldest iteration by these decisions with advantages (M,)."""
        slot = self.slots[(iteration - 1) % len(self.slots)]
        assert isinstance(slot, _Slot)
        slot.hold({name: getattr(inputs, name) for name in _FIELDS} | {"advantage": advantage})

    def all(self) -> tuple[NetworkInputs, Floats]:
        """Return all decisions in the buffer and their advantages (M,)."""
        slots = [dict(slot.named_buffers()) for slot in self.slots]
        arrays = [{name: value.numpy() for name, value in slot.items()} for slot in slots if slot]
        inputs = join([NetworkInputs(**{name: slot[name] for name in _FIELDS}) for slot in arrays])
        return inputs, np.concatenate([slot["advantage"] for slot in arrays])


class _Slot(nn.Module):
    """The buffers of one iteration, of any length; none before the first `hold`."""

    def hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        for name, value in arrays.items():
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(value)))

    def _load_from_state_dict(
        self, state_dict: dict[str, torch.Tensor], prefix: str, *args: Any
    ) -> None:
        """Accept buffers of any saved length; torch would require equal shapes."""
        for name in (*_FIELDS, "advantage"):
            if prefix + name in state_dict:
                self.register_buffer(name, state_dict[prefix + name].clone())
        super()._load_from_state_dict(state_dict, prefix, *args)
