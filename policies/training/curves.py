"""Training curves: means over equal intervals of steps."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from hindcast.policies.networks.checkpoint import Metric

POINTS: Final = 50  # of a curve, roughly; values between two points are averaged


class Curves:
    """The curves of one run, with a point every `steps // POINTS` steps and after the last step."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._every = max(1, steps // POINTS)
        self.rows: list[Metric] = []
        self._values: dict[str, list[Tensor | float]] = {}

    def add(self, info: Mapping[str, Tensor | float]) -> None:
        """Add the metrics of one step; tensors stay on their device until a point is due."""
        for name, value in info.items():
            self._values.setdefault(name, []).append(value)

    def due(self, step: int) -> bool:
        """Return True if a point is due after this many steps."""
        return step % self._every == 0 or step == self._steps

    def point(self, step: int, extra: Mapping[str, float]) -> tuple[Metric, ...]:
        """Close an interval of steps and return the means over it.

        `extra` are metrics that were measured after exactly this step.
        """
        means = {name: float(np.mean(_fetched(v))) for name, v in self._values.items()}
        drawn = tuple(Metric(step, name, value) for name, value in {**means, **extra}.items())
        self.rows.extend(drawn)
        self._values.clear()
        return drawn

    def state(self) -> dict[str, Any]:
        """Return the whole state of the curves, as JSON values."""
        rows = [[m.step, m.metric, m.value] for m in self.rows]
        return {"rows": rows, "values": {n: _fetched(v) for n, v in self._values.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self.rows = [Metric(int(s), str(name), float(v)) for s, name, v in state["rows"]]
        self._values = {str(n): [float(v) for v in vs] for n, vs in state["values"].items()}


def _fetched(values: list[Tensor | float]) -> list[float]:
    """Return values as numbers, those on a device in one transfer."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    if len(tensors) < len(values):
        return [float(value) for value in values]
    found: list[float] = torch.stack(tensors).flatten().tolist()
    return found
