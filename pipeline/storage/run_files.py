"""Names of the files of a run, and of the files that mark other folders.

RUN/checkpoint.json, weights.safetensors     the checkpoint after the last step
RUN/metrics.parquet                          its training curves: step, metric, value
RUN/provenance.json                          where it was trained, see pipeline.storage.provenance
RUN/best/                                    the best checkpoint, if one was chosen
RUN/delivered/                               the agent, or the rule that it could not beat
RUN/checkpoints/step-000500/                 the checkpoint after 500 steps
RUN/folds/0/ ...                             trainings of `--gate folds`, until the run is finished
run.json                                     ledger of `hindcast run`, in its output folder
evaluation.json, scores.parquet              of an evaluation; .evaluating until it is finished
jobs/                                        schedules of one of its windows, by policy
.building                                    of a dataset until it is finished
"""

from pathlib import Path
from typing import Final

DESCRIPTION: Final = "checkpoint.json"
WEIGHTS: Final = "weights.safetensors"
CURVES: Final = "metrics.parquet"
BEST: Final = "best"
DELIVERED: Final = "delivered"
CHECKPOINTS: Final = "checkpoints"
FOLDS: Final = "folds"
LEDGER: Final = "run.json"
EVALUATION: Final = "evaluation.json"
SCORES: Final = "scores.parquet"
EVALUATING: Final = ".evaluating"
JOBS: Final = "jobs"  # schedules of an evaluation, and of `whatif`
BUILDING: Final = ".building"


def step_folder(run: Path, step: int) -> Path:
    """Return the folder of the checkpoint after `step` steps of a run."""
    return run / CHECKPOINTS / f"step-{step:06}"
