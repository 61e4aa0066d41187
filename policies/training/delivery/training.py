"""Trainings that end with a delivery, in one folder and whatever interrupts them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

from hindcast.pipeline.notes import tell
from hindcast.pipeline.storage.files import remove_folder
from hindcast.pipeline.storage.run_files import FOLDS
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.training.delivery.checkpoints import (
    Decide,
    decide_again,
    finished_otherwise,
    policies_of,
    write_training,
)
from hindcast.policies.training.delivery.folds import FOLDS as COUNT
from hindcast.policies.training.delivery.folds import Without
from hindcast.policies.training.delivery.verdict import Gate
from hindcast.policies.training.fingerprint import finished
from hindcast.policies.training.job import Reporting, TrainingJob, fit_in
from hindcast.policies.training.resume import ResumeFile


def train_and_deliver(
    job: TrainingJob, out: Path, gate: Callable[[Without], Decide], reporting: Reporting
) -> Path:
    """Train in the folder `out` and write the checkpoints and what is delivered.

    `gate` makes the function that compares the checkpoints with the best rule, from one that trains
    again without a fold. A finished training is left unchanged; if it was finished with another
    gate, it is judged again.
    """
    identity = job.identity
    if finished(out, identity.key, reporting.checkpoint_every):
        return out
    decide = gate(partial(_train_without, job, out, reporting.resume_s))
    others = [replace(identity, gate=other).key for other in get_args(Gate)]
    if finished_otherwise(out, others, reporting.checkpoint_every):
        decide_again(out, job.spec, identity.key, identity.steps, decide)
    else:
        _fit_and_write(job, out, decide, reporting)
    remove_folder(out / FOLDS)
    return out


def _train_without(
    job: TrainingJob, out: Path, resume_s: float, number: int, windows: Sequence[int]
) -> dict[str, LearnedPolicy]:
    """Return the policies of a training without some windows; they lie in OUT/folds."""
    rest, folder = job.without(windows), out / FOLDS / str(number)
    if not finished(folder, rest.identity.key, None):
        tell(f"fold {number + 1} of {COUNT}: trained without {len(windows)} windows")
        _fit_and_write(rest, folder, lambda _: None, Reporting(resume_s=resume_s))
    return policies_of(folder)


def _fit_and_write(job: TrainingJob, out: Path, decide: Decide, reporting: Reporting) -> None:
    trained, about = fit_in(job, out, reporting)
    write_training(out, about, trained, decide)
    ResumeFile(out, job.identity.key).remove()
