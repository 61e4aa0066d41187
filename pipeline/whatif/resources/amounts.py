"""Resources of a machine beside its processors, and what jobs ask of them.

A record and a run have both, or neither where processors are all there is. Amounts are those of
hindcast.pipeline.scenarios.queue.asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.asks import Asks, shape_of
from hindcast.pipeline.scenarios.queue.fitting import Shape

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Resources:
    """The K resources of a machine, the processors first.

    Attributes:
        names: Their names.
        capacity: Amount of each, (K,).
        units: Amounts that are one processor, GPU or MiB, (K,): 1, or 1000 for GPUs if a job asks
            for a fraction of one.
    """

    names: tuple[str, ...]
    capacity: Ints
    units: Ints

    @property
    def shape(self) -> Shape:
        """Numbers of the resources."""
        return shape_of(self.names)


def together(resources: Sequence[Resources | None]) -> Resources | None:
    """Return the resources of several machines as one."""
    found = [one for one in resources if one is not None]
    if not found:
        return None
    return replace(found[0], capacity=np.sum([one.capacity for one in found], axis=0))


def asks_of(rows: Ints) -> Asks:
    """Return asks from the rows of compiled functions, (N, K + 1)."""
    return Asks(rows[:, :-1], rows[:, -1], np.zeros((len(rows), rows.shape[1] - 1), np.bool_))


def amounts_of(rows: Ints, kinds: Ints) -> Ints:
    """Return what jobs take, (N, K), from their rows (N, K + 1) and placements (N,)."""
    amounts = rows[:, :-1].copy()
    amounts[np.arange(len(rows)), kinds] += rows[:, -1]
    return amounts
