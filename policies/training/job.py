"""A training in a folder: the part that offline, online and stacked trainings share.

    open the folder -> prepare: read the data, make the learner -> loop -> result

Trainings differ in how they prepare. The same call after an interruption continues from the state
in the folder (hindcast.policies.training.resume).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.files import make_folder, remove_partials
from hindcast.pipeline.storage.provenance import begin_training, provenance
from hindcast.pipeline.storage.run_files import step_folder
from hindcast.policies.networks.checkpoint import Trained, save
from hindcast.policies.training.devices import find_device, repeatable, torch_setting
from hindcast.policies.training.fingerprint import Identity
from hindcast.policies.training.learner import Learner, Task
from hindcast.policies.training.loop import Callbacks, Point, Progress, fit, untrained
from hindcast.policies.training.monitoring import measure_of
from hindcast.policies.training.resume import INTERVAL_S, ResumeFile
from hindcast.policies.training.run_folder import clear
from hindcast.policies.training.tensorboard import open_tensorboard


@dataclass(frozen=True)
class Options:
    """Settings of a training that every agent has.

    Attributes:
        steps: Number of gradient steps, or of iterations of an online agent; None for the default.
        seed: Seed of every random draw.
        device: "cpu", "cuda", or "auto", which is a GPU if there is one.
        gate: How the agent is compared with the best rule, see hindcast.policies.training.delivery.
            None is "log" for a log of decisions, which has no simulator, else "simulator".
    """

    steps: int | None = None
    seed: int = 0
    device: str = "auto"
    gate: str | None = None


@dataclass(frozen=True)
class Reporting:
    """Reports and checkpoints of a training while it runs. They change no result.

    Attributes:
        progress: Called with (done, steps) about fifty times.
        point: Called with the step and the metrics of every point of the curves.
        checkpoint_every: Steps between checkpoints that are kept; None keeps none.
        tensorboard: Folder for event files of TensorBoard.
        resume_s: Least number of seconds between two states to resume from.
    """

    progress: Progress | None = None
    point: Point | None = None
    checkpoint_every: int | None = None
    tensorboard: Path | None = None
    resume_s: float = INTERVAL_S


DEFAULTS: Final = Options()
SILENT: Final = Reporting()


@dataclass(frozen=True)
class Prepared:
    """A training whose data is read, before its first step.

    Attributes:
        learner: The run of the agent.
        begun: Its result without weights and curves.
        callbacks: How its checkpoints are measured and selected.
        about: Description of the data for checkpoint.json.
    """

    learner: Learner
    begun: Trained
    callbacks: Callbacks
    about: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class TrainingJob:
    """A training that can run in a folder, again without some windows.

    Attributes:
        identity: What its weights and its delivery depend on.
        spec: Spec of the scenario setting.
        prepare: Function of the folder and of Reporting.resume_s. It reads the data and makes the
            learner.
        without: Function of windows that returns the job that does not learn from them.
    """

    identity: Identity
    spec: Spec
    prepare: Callable[[Path, float], Prepared]
    without: Callable[[Sequence[int]], "TrainingJob"]


def prepared(agent: str, learner: Learner, config: Any, task: Task) -> Prepared:
    """Return the training of a learner, which is measured on the decisions of its task."""
    begun = untrained(learner, agent, config, task.spec, steps=task.steps, seed=task.seed)
    return Prepared(learner, begun, Callbacks(measure=measure_of(task)))


def open_folder(out: Path, device: torch.device, *, continued: bool = False) -> None:
    """Make the folder of a training and record that one begins, or is continued, here.

    Files of another training are removed.
    """
    setting = torch_setting(device)
    if not continued:
        clear(out)
    make_folder(out)
    remove_partials(out)
    begin_training(out, provenance(torch=setting))


def fit_in(
    job: TrainingJob, out: Path, reporting: Reporting = SILENT
) -> tuple[Trained, dict[str, Any]]:
    """Train in the folder `out`, and return the result with a description of the training."""
    identity, device = job.identity, find_device(job.identity.device)
    resume = ResumeFile(out, identity.key, interval_s=reporting.resume_s)
    run = f"{identity.agent}-seed{identity.seed}"
    draw, close = open_tensorboard(reporting.tensorboard, run)

    def point(step: int, metrics: Mapping[str, float]) -> None:
        for call in filter(None, (draw, reporting.point)):
            call(step, metrics)

    try:
        with repeatable(device):
            open_folder(out, device, continued=resume.waits())
            training = job.prepare(out, reporting.resume_s)
            about = {**(training.about or {}), "key": identity.key, "of_steps": identity.steps}
            callbacks = replace(
                training.callbacks,
                point=point,
                every=reporting.checkpoint_every,
                keep=partial(_keep, out, about),
                resume=resume,
            )
            if reporting.progress is not None:
                callbacks = replace(callbacks, progress=reporting.progress)
            return fit(training.learner, training.begun, callbacks), about
    finally:
        close()


def _keep(out: Path, about: Mapping[str, Any], reached: Trained) -> None:
    """Write a checkpoint on the way."""
    save(reached, step_folder(out, reached.steps), about)
