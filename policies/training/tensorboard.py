"""Training curves for TensorBoard, if the extra `tensorboard` is installed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hindcast.pipeline.storage.extras import require
from hindcast.policies.training.loop import Point


def open_tensorboard(folder: Path | None, run: str) -> tuple[Point | None, Callable[[], None]]:
    """Return two functions: one writes a point to event files in `folder`/`run`, one closes them.

    A resumed run adds to its files; of two points of one step TensorBoard shows the later one.
    Raises InputError if TensorBoard is not installed.
    """
    check_tensorboard(folder)
    if folder is None:
        return None, lambda: None
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(str(folder / run))

    def point(step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return point, writer.close


def check_tensorboard(folder: Path | str | None) -> None:
    """Raise InputError if a folder is given and TensorBoard is not installed."""
    if folder is not None:
        require("--tensorboard", "tensorboard")
