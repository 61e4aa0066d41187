"""A training in a folder: its settings, how it prepares, and the folder as it opens and ends.

`hindcast.policies.training.delivery.training` runs such trainings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.files import make_folder, remove_partials
from hindcast.pipeline.storage.provenance import PROVENANCE, begin_training, provenance
from hindcast.pipeline.storage.run_files import (
    BEST,
    CHECKPOINTS,
    DELIVERED,
    DESCRIPTION,
    WEIGHTS,
    step_folder,
)
from hindcast.policies.networks.checkpoint import Trained, load_policy, read_description
from hindcast.policies.training.fingerprint import Identity
from hindcast.policies.training.learner import Learner
from hindcast.policies.training.loop import Callbacks, Point, Progress
from hindcast.policies.training.resume import INTERVAL_S


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
    about: Mapping[str, Any] = field(default_factory=dict)


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


def open_folder(out: Path, setting: Mapping[str, Any], *, continued: bool = False) -> None:
    """Make the folder of a training and record that one begins, or is continued, here.

    Files of another training are removed: its checkpoints would look like those of this one.
    `setting` is that of `hindcast.policies.training.devices.repeatable`.
    """
    if not continued:
        steps = sorted((out / CHECKPOINTS).glob("step-*"))
        for folder in (out, out / BEST, out / DELIVERED, *steps):
            for name in (DESCRIPTION, WEIGHTS, PROVENANCE):
                (folder / name).unlink(missing_ok=True)
            if folder != out and folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    make_folder(out)
    remove_partials(out)
    begin_training(out, provenance(torch=setting))


def finished_key(folder: Path, checkpoint_every: int | None = None) -> str | None:
    """Return the key of the training whose whole checkpoint the folder holds; None without one.

    Checkpoints on the way are no part of the key. If `checkpoint_every` asks for them, they must
    exist.
    """
    try:
        training = read_description(folder)["training"]
        load_policy(folder)
    except (DatasetError, KeyError):
        return None
    if checkpoint_every:
        steps = range(checkpoint_every, training["steps"] + 1, checkpoint_every)
        wanted = {*steps, training["steps"]}
        if not all((step_folder(folder, n) / DESCRIPTION).is_file() for n in wanted):
            return None
    key = training.get("key")
    return key if isinstance(key, str) else None
