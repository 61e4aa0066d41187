"""Training curves for TensorBoard, where the extra `tensorboard` is installed."""

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from policies.training.loop import Point


def open_tensorboard(folder: Path | None, run: str) -> tuple[Point | None, Callable[[], None]]:
    """What draws a point in the event files of `folder`/`run`, and what closes them.

    Raises InputError where TensorBoard is not installed. A run that is gone on with adds to its
    files; TensorBoard shows the later of two points of one step.
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
    """Raise InputError where a folder is given and TensorBoard is not installed."""
    if folder is not None and importlib.util.find_spec("tensorboard") is None:
        raise InputError("--tensorboard needs TensorBoard: pip install '.[tensorboard]'")
