"""The loop that agents share: AdamW on a loss, its step size falling to zero, and the curves."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from policies.checkpoint import Metric

Info = Mapping[str, Tensor]
Progress = Callable[[int, int], None]

POINTS: Final = 50  # of a curve; between two of them values are averaged


class Curves:
    """Training curves: means over equal stretches of steps, at most POINTS of them."""

    def __init__(self, steps: int) -> None:
        self.every = max(1, steps // POINTS)
        self.rows: list[Metric] = []
        self._sums: dict[str, list[float]] = {}

    def add(self, info: Mapping[str, Tensor | float]) -> None:
        """Values of one step."""
        for name, value in info.items():
            self._sums.setdefault(name, []).append(float(value))

    def due(self, step: int) -> bool:
        """Whether a point is drawn after this many steps."""
        return step % self.every == 0

    def point(self, step: int, extra: Mapping[str, float] | None = None) -> None:
        """Close a stretch; `extra` are values of this very step (validation)."""
        for name, values in self._sums.items():
            self.rows.append(Metric(step, name, float(np.mean(values))))
        self.rows.extend(Metric(step, name, value) for name, value in (extra or {}).items())
        self._sums.clear()


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: sums in one order, so that weights repeat bit for bit.

    The networks are far too small to gain from more; several trainings run side by side instead.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def minimise(
    scorer: nn.Module,
    loss: Callable[[], tuple[Tensor, Info]],
    *,
    steps: int,
    learning_rate: float,
    weight_decay: float,
    validate: Callable[[], Mapping[str, float]],
    progress: Progress,
) -> tuple[Metric, ...]:
    """`steps` of AdamW on fresh draws of `loss`, linearly down to a step size of zero."""
    optimiser = torch.optim.AdamW(scorer.parameters(), lr=learning_rate, weight_decay=weight_decay)
    curves = Curves(steps)
    for step in range(1, steps + 1):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * (1.0 - (step - 1) / steps)
        value, info = loss()
        optimiser.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        curves.add({"loss": value.detach(), **info})
        if curves.due(step):
            with torch.no_grad():
                curves.point(step, validate())
            progress(step, steps)
    return tuple(curves.rows)
