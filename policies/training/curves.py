"""Training curves: means over equal stretches of steps."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from torch import Tensor

from policies.networks.checkpoint import Metric

POINTS: Final = 50  # of a curve, about; between two of them values are averaged


class Curves:
    """The curves of one run; a point is due every `steps // POINTS` steps, and after the last."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._every = max(1, steps // POINTS)
        self.rows: list[Metric] = []
        self._values: dict[str, list[Tensor | float]] = {}

    def add(self, info: Mapping[str, Tensor | float]) -> None:
        """Values of one step; tensors are fetched from their device when a point is due."""
        for name, value in info.items():
            self._values.setdefault(name, []).append(value)

    def due(self, step: int) -> bool:
        """Whether a point is drawn after this many steps."""
        return step % self._every == 0 or step == self._steps

    def point(self, step: int, extra: Mapping[str, float]) -> tuple[Metric, ...]:
        """Close a stretch, and what it came to; `extra` was measured at this very step."""
        means = {name: float(np.mean(_fetched(v))) for name, v in self._values.items()}
        drawn = tuple(Metric(step, name, value) for name, value in {**means, **extra}.items())
        self.rows.extend(drawn)
        self._values.clear()
        return drawn

    def state(self) -> dict[str, Any]:
        """Everything, as JSON."""
        rows = [[m.step, m.metric, m.value] for m in self.rows]
        return {"rows": rows, "values": {n: _fetched(v) for n, v in self._values.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The opposite of `state`."""
        self.rows = [Metric(int(s), str(name), float(v)) for s, name, v in state["rows"]]
        self._values = {str(n): [float(v) for v in vs] for n, vs in state["values"].items()}


def _fetched(values: list[Tensor | float]) -> list[float]:
    return [float(value) for value in values]
