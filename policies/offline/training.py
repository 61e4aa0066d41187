"""Training from a dataset folder to a checkpoint folder: the work of `hindcast train`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import unknown_name
from hindcast.pipeline.notes import tell
from hindcast.pipeline.storage.files import make_folder, remove_folder, remove_partials
from hindcast.pipeline.storage.locks import one_writer
from hindcast.pipeline.storage.provenance import begin_training, provenance
from hindcast.pipeline.storage.run_files import FOLDS, step_folder
from hindcast.policies.delivery.checkpoints import (
    decide_again,
    finished_otherwise,
    policies_of,
    write_training,
)
from hindcast.policies.delivery.folds import FOLDS as COUNT
from hindcast.policies.delivery.verdict import Gate
from hindcast.policies.networks.checkpoint import Trained, save
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.offline import Agent, read_config
from hindcast.policies.offline import agent as find_agent
from hindcast.policies.offline.fit import train_decisions
from hindcast.policies.offline.gates import decide_by
from hindcast.policies.offline.sample_cache import columns_of_rules, sample
from hindcast.policies.training.devices import find_device, torch_setting
from hindcast.policies.training.episode_stream import Logs, log_of_dataset
from hindcast.policies.training.fingerprint import finished, training_key
from hindcast.policies.training.loop import Point, Progress, Select
from hindcast.policies.training.resume import ResumeFile
from hindcast.policies.training.run_folder import clear
from hindcast.policies.training.tensorboard import open_tensorboard

MEMORY: Final = 512 << 20  # bytes of decisions: half a million of the real packing workload


@one_writer
def train(
    dataset: Path,
    agent: str,
    *,
    steps: int,
    seed: int,
    out: Path,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    gate: Gate = "simulator",
    checkpoint_every: int | None = None,
    tensorboard: Path | None = None,
    select: tuple[str, Select] | None = None,
    progress: Progress | None = None,
    point: Point | None = None,
) -> Path:
    """Train an agent on the dataset's train split and write its checkpoint to `out`.

        out/checkpoint.json, weights.safetensors    after the last step
        out/metrics.parquet                         curves: step, metric, value
        out/provenance.json                         where it was trained: code, processor, libraries
        out/best/                                   the best checkpoint on the validation split
        out/delivered/                              the best checkpoint, or a rule it does not beat
        out/checkpoints/step-000500/ ...            every `checkpoint_every` steps, and the last
        out/training.safetensors                    state of an interrupted run; removed at the end

    An interrupted run resumes and ends in the same bytes. A finished run is left unchanged. The
    validation split, if there is one, adds points to the curves and selects the best checkpoint, by
    the agent's own criterion or by `select`. `gate` compares the checkpoints with the best rule of
    the log, in the simulator, with trainings on parts of the log (which lie in out/folds until they
    have played), or on the log alone (hindcast.policies.delivery). A training that is finished with
    another gate is judged, not repeated. `tensorboard` is a folder for TensorBoard's event files.
    `point` is called with the step and the metrics of every point of the curves. Raises
    UnknownName, RecipeError, DatasetError, StorageError and InputError.
    """
    if gate not in get_args(Gate):
        raise unknown_name("gate", gate, get_args(Gate))
    wanted = find_agent(agent)
    config = read_config(agent, settings)  # before any slow step or write
    opened = ds.open(dataset)
    job = _Job(wanted, config, steps, seed, device, gate, select)
    key = job.key(opened)
    if finished(out, key, checkpoint_every):
        return out
    decide = decide_by(opened, seed, gate, partial(_without, job, opened, out))
    others = [replace(job, gate=other).key(opened) for other in get_args(Gate)]
    if finished_otherwise(out, others, checkpoint_every):
        decide_again(out, opened.spec, key, steps, decide)
    else:
        reporting = _Reporting(progress, point, checkpoint_every, tensorboard)
        trained, trained_on = _fit(job, opened, out, key, reporting)
        write_training(out, trained_on, trained, decide)
        ResumeFile(out, key).remove()
    remove_folder(out / FOLDS)
    return out


@dataclass(frozen=True)
class _Job:
    """Settings that determine, with the log, the weights of a training and its delivery."""

    agent: Agent
    config: Any
    steps: int
    seed: int
    device: str
    gate: Gate
    select: tuple[str, Select] | None

    def key(self, opened: ds.Dataset) -> str:
        """Return the key of the training on this log."""
        return training_key(
            self.agent.name, self.agent.module, self.config, self.steps, self.seed, data_of(opened),
            find_device(self.device).type, "" if self.select is None else self.select[0],
            gate=self.gate,
        )  # fmt: skip


@dataclass(frozen=True)
class _Reporting:
    """Callbacks and outputs of a training while it runs."""

    progress: Progress | None = None
    point: Point | None = None
    checkpoint_every: int | None = None
    tensorboard: Path | None = None


def _fit(
    job: _Job, opened: ds.Dataset, out: Path, key: str, reporting: _Reporting
) -> tuple[Trained, dict[str, Any]]:
    """Train in the folder `out`, and return the result with a description of the training."""
    make_folder(out)
    remove_partials(out)
    if not ResumeFile(out, key).waits():
        clear(out)
    begin_training(out, provenance(torch=torch_setting(find_device(job.device))))
    draw, close = open_tensorboard(reporting.tensorboard, f"{job.agent.name}-seed{job.seed}")

    def each_point(step: int, metrics: Mapping[str, float]) -> None:
        for call in filter(None, (draw, reporting.point)):
            call(step, metrics)

    decisions, validation = both_splits(opened, job.agent, job.config, job.seed)
    logs = None
    if job.agent.whole:
        further = columns_of_rules(opened, job.config)
        held_out = None if validation is None else log_of_dataset(opened, "validation", further)
        logs = Logs(log_of_dataset(opened, "train", further), held_out)
    trained_on = {"dataset": {**data_of(opened), "decisions": len(decisions)}, "key": key}

    def keep(trained: Trained) -> None:
        on_the_way = {**trained_on, "of_steps": job.steps}
        save(trained, step_folder(out, trained.steps), on_the_way)

    try:
        trained = train_decisions(
            job.agent, decisions, opened.spec, job.config, steps=job.steps, seed=job.seed,
            validation=validation, device=job.device, progress=reporting.progress, point=each_point,
            checkpoint_every=reporting.checkpoint_every, keep=keep, select=job.select,
            resume=(out, key), logs=logs,
        )  # fmt: skip
    finally:
        close()
    return trained, {**trained_on, "of_steps": job.steps}


def _without(
    job: _Job, opened: ds.Dataset, out: Path, number: int, windows: Sequence[int]
) -> dict[str, LearnedPolicy]:
    """Return the policies of a training on the log without some windows; they lie in OUT/folds."""
    rest, folder = opened.without(windows), out / FOLDS / str(number)
    key = job.key(rest)
    if not finished(folder, key, None):
        tell(f"fold {number + 1} of {COUNT}: trained without {len(windows)} windows")
        trained, trained_on = _fit(job, rest, folder, key, _Reporting())
        write_training(folder, trained_on, trained, lambda _: None)
        ResumeFile(folder, key).remove()
    return policies_of(folder)


def data_of(opened: ds.Dataset) -> dict[str, Any]:
    """Return the digests that identify the data of a training, and the windows it leaves out."""
    found: dict[str, Any] = {
        "recipe": opened.recipe.id,
        "digest": opened.manifest.digest,
        "episodes_sha256": opened.manifest.episodes.sha256,
    }
    return {**found, "left_out": list(opened.left_out)} if opened.left_out else found


def both_splits(
    opened: ds.Dataset, agent: Agent, config: Any, seed: int
) -> tuple[Decisions, Decisions | None]:
    """Return decisions of the train split, and of the validation split if there is one."""
    decisions = sample(opened, agent, config, seed, "train", MEMORY)
    if not (opened.episodes()["split"] == "validation").any():
        return decisions, None
    return decisions, sample(opened, agent, config, seed, "validation", MEMORY // 10)
