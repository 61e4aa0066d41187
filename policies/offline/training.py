"""Training from a dataset folder to a checkpoint folder: the work of `hindcast train`."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.lineage import selection_caveats
from hindcast.pipeline.decisions.live.description import LOG, description_of
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.notes import tell
from hindcast.pipeline.scenarios.decisions import NAME as DECISIONS
from hindcast.pipeline.storage.locks import one_writer
from hindcast.policies.offline import Agent, read_config
from hindcast.policies.offline import agent as find_agent
from hindcast.policies.offline.tasks import task_of
from hindcast.policies.training.delivery.gates import decide_by, gate_for
from hindcast.policies.training.delivery.training import train_and_deliver
from hindcast.policies.training.delivery.verdict import Gate
from hindcast.policies.training.devices import find_device
from hindcast.policies.training.fingerprint import Identity
from hindcast.policies.training.job import (
    DEFAULTS,
    SILENT,
    Options,
    Prepared,
    Reporting,
    TrainingJob,
)
from hindcast.policies.training.learner import Task
from hindcast.policies.training.loop import Callbacks, untrained
from hindcast.policies.training.monitoring import measure_of

STEPS: Final = 2000  # gradient steps by default


@one_writer
def train(
    dataset: Path,
    agent: str,
    out: Path,
    options: Options = DEFAULTS,
    *,
    settings: Mapping[str, Any] | None = None,
    reporting: Reporting = SILENT,
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
    the agent's own criterion. The gate compares the checkpoints with the best rule of the log, in
    the simulator, with trainings on parts of the log (which lie in out/folds until they have
    played), or on the log alone (hindcast.policies.training.delivery), as it is for a log of
    decisions. A training that is finished with another gate is judged, not repeated. Raises
    UnknownName, RecipeError, DatasetError, StorageError and InputError.
    """
    if options.gate is not None and options.gate not in get_args(Gate):
        raise unknown_name("gate", options.gate, get_args(Gate))
    wanted = find_agent(agent)
    config = read_config(agent, settings)  # before any slow step or write
    opened = ds.open(dataset)
    _refuse(opened, wanted)
    for caveat in selection_caveats(opened.manifest.lineage):
        tell(f"warning: {caveat.text}")
    job = _job(opened, wanted, config, options)
    gate = partial(decide_by, opened, options.seed, job.identity.gate)
    return train_and_deliver(job, out, gate, reporting)


def _refuse(opened: ds.Dataset, agent: Agent) -> None:
    """Raise InputError for an agent that a log of decisions, which nothing can play, has not."""
    if opened.spec.scenario != DECISIONS:
        return
    lacks = ""
    if agent.around and not agent.scenarios:  # others are refused by their scenario
        lacks = (
            "learns from episodes that drew the weights of their policy, which a simulator plays"
        )
    elif agent.pairs and not opened.episodes("train")["window"].is_duplicated().any():
        lacks = (
            "compares episodes of one unit, such as sessions of one user, and every unit has one"
        )
    if lacks:
        raise InputError(
            f"{agent.name} {lacks}; the decisions of {opened.folder} were made elsewhere; expected "
            "an agent that learns from single decisions, such as cql or behaviour_cloning"
        )


def identity_of(opened: ds.Dataset, agent: Agent, config: Any, options: Options) -> Identity:
    """Return what the weights of a training on this log depend on."""
    return Identity(
        agent.name, agent.module, config, STEPS if options.steps is None else options.steps,
        options.seed, data_of(opened), find_device(options.device),
        gate_for(opened, options.gate),
    )  # fmt: skip


def _job(opened: ds.Dataset, agent: Agent, config: Any, options: Options) -> TrainingJob:
    """Return the training of an agent on a log; a fold of it is the same on fewer windows."""
    identity = identity_of(opened, agent, config, options)

    def without(windows: Sequence[int]) -> TrainingJob:
        return _job(opened.without(windows), agent, config, options)

    def begin(_out: Path, _resume_s: float) -> Prepared:
        task = task_of(opened, agent, identity)
        described = about(opened, identity, task)
        learner = agent.implementation().learner(task, config)
        begun = untrained(learner, agent.name, config, task.spec, steps=task.steps, seed=task.seed)
        return Prepared(learner, begun, Callbacks(measure=measure_of(task)), described)

    return TrainingJob(identity, opened.spec, begin, without)


def about(opened: ds.Dataset, identity: Identity, task: Task) -> dict[str, Any]:
    """Return the description of the data in checkpoint.json.

    That of a log of decisions has its names, so that the checkpoint decides without the dataset.
    """
    found: dict[str, Any] = {"dataset": {**identity.data, "decisions": len(task.decisions)}}
    if opened.spec.scenario == DECISIONS:
        found[LOG] = description_of(opened.manifest).as_table()
    return found


def data_of(opened: ds.Dataset) -> dict[str, Any]:
    """Return the digests that identify the data of a training, and the windows it leaves out.

    Data that was made of other datasets has also the operation, and the digests of all of those.
    """
    found: dict[str, Any] = {
        "recipe": opened.recipe.id,
        "digest": opened.manifest.digest,
        "episodes_sha256": opened.manifest.episodes.sha256,
    }
    if (lineage := opened.manifest.lineage) is not None:
        found |= {"made_by": lineage.words, "of": list(lineage.digests)}
    return {**found, "left_out": list(opened.left_out)} if opened.left_out else found
