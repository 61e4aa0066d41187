"""Names of the files that a run leaves.

RUN/checkpoint.json, weights.safetensors     the checkpoint after the last step
RUN/metrics.parquet                          its training curves: step, metric, value
RUN/best/                                    the best checkpoint, where one was chosen
RUN/checkpoints/step-000500/                 the checkpoint after 500 steps
run.json                                     ledger of `hindcast run`, in the folder of its output
"""

from pathlib import Path
from typing import Final

DESCRIPTION: Final = "checkpoint.json"
WEIGHTS: Final = "weights.safetensors"
CURVES: Final = "metrics.parquet"
BEST: Final = "best"
CHECKPOINTS: Final = "checkpoints"
LEDGER: Final = "run.json"


def step_folder(run: Path, step: int) -> Path:
    """Return where a run keeps the checkpoint after so many steps."""
    return run / CHECKPOINTS / f"step-{step:06}"
