"""Online training, from a recipe to a checkpoint folder (`hindcast train-online`)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from hindcast.pipeline.errors import DatasetError, InputError, RecipeError, unknown_name
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import INGESTED, load_source, opens_trace, trace_path
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.files import sha256_file
from hindcast.pipeline.storage.locks import one_writer
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.networks import AnyNetwork
from hindcast.policies.networks.checkpoint import load_policy, read_description
from hindcast.policies.networks.ensemble import mean_of_scores
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import NetworkSettings, Weights
from hindcast.policies.online import online_agent, read_online_config
from hindcast.policies.online.gates import OnlineGate, decide_by
from hindcast.policies.online.guard import guard_of, passes
from hindcast.policies.online.imitation import FOLDER as IMITATION
from hindcast.policies.online.imitation import Imitation, Imitator, imitate
from hindcast.policies.online.problem import Problem, fit_network
from hindcast.policies.training.delivery import played
from hindcast.policies.training.delivery.training import train_and_deliver
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
from hindcast.policies.training.learner import Learner
from hindcast.policies.training.loop import Callbacks, untrained


@one_writer
def train_online(
    recipe: Recipe,
    out: Path,
    options: Options = DEFAULTS,
    *,
    agent: str | None = None,
    start: Sequence[Path] = (),
    imitation: Imitation | None = None,
    workers: int = 1,
    reporting: Reporting = SILENT,
) -> Path:
    """Train an agent on the recipe's train windows and write its checkpoint to `out`.

        out/checkpoint.json, weights.safetensors    after the last iteration
        out/metrics.parquet                         curves: step (iteration), metric, value
        out/provenance.json                         where it was trained: code, processor, libraries
        out/best/                                   the best checkpoint on the validation windows
        out/delivered/                              the best checkpoint, or a rule it does not beat
        out/checkpoints/step-000500/ ...            after every `checkpoint_every`, and the last one
        out/imitation/                              checkpoint of `imitation`, before the first play
        out/training.safetensors                    state of an interrupted run; removed at the end

    Agent and steps, which are iterations, are by default those of the recipe's [online]. `start` is
    the checkpoint of a network to continue from, of an offline agent or of this agent: its
    architecture and its normalisation replace those of the settings. With several checkpoints, the
    network is their ensemble, whose scores are the means of theirs
    (hindcast.policies.networks.ensemble). Only the weights are taken over; exploration and step
    sizes start from the beginning. By default, an ensemble has no iterations: it is judged and
    delivered as it is. `imitation` trains the agent's network on a dataset before it plays. The
    gate compares the checkpoints with the best rule of the scenario on the validation windows, or
    with trainings without parts of the train windows, which lie in out/folds until they have played
    (hindcast.policies.training.delivery). A training that is finished with another gate is judged,
    not repeated. The same recipe, seed, start and dataset give the same bytes for any number of
    `workers` and any number of interruptions. Raises UnknownName, RecipeError, DatasetError,
    StorageError, InputError.
    """
    gate = options.gate or "simulator"
    if gate not in get_args(OnlineGate):
        raise unknown_name("gate", gate, get_args(OnlineGate))
    name, config = settings_of(recipe, agent)
    ensemble, iterations = len(start) > 1, options.steps
    if iterations is None:
        iterations = 0 if ensemble else recipe.online.iterations
    if iterations < (0 if ensemble else 1):
        raise InputError(f"iterations is {iterations}, expected at least 1")
    if start and imitation is not None:
        raise InputError("train-online: give a checkpoint to start from or a dataset to imitate")
    if start and gate == "folds":
        raise InputError(
            "train-online: --gate folds judges an agent on windows that it has not seen, but the "
            "training of the checkpoint to start from may have seen any; give one of the two"
        )
    device = find_device(options.device)
    problem = problem_of(recipe, options.seed, workers)
    first = read_start(start, problem.spec, name, config.network) if start else None
    if first is not None:
        config = replace(config, network=first.network.settings)
    if gate == "folds" and len(problem.train) == 1:
        raise RecipeError(f"{recipe.id}: --gate folds leaves out train windows, but there is one")
    identity = Identity(
        name, online_agent(name).module, config, iterations, options.seed,
        _data(recipe, problem, start, imitation), device, gate,
    )  # fmt: skip
    job = _job(identity, problem, first, imitation)
    return train_and_deliver(job, out, partial(decide_by, problem, gate), reporting)


def _data(
    recipe: Recipe, problem: Problem, start: Sequence[Path], imitation: Imitation | None
) -> dict[str, Any]:
    """Return what identifies the windows of a training, and the start of its weights."""
    started = [read_description(folder)["weights"]["sha256"] for folder in start]
    first = started if len(started) > 1 else next(iter(started), None)
    found = {"recipe": recipe.id, "digest": recipe.digest, "start": first}
    if problem.sources:  # the recipe's digest covers the place of a log, not what it holds
        found["trace"] = [{"name": name, "sha256": sha} for name, sha in problem.sources]
    if imitation is not None:
        found["imitated"] = imitation.provenance()
    return found


def _job(
    identity: Identity, problem: Problem, first: LearnedPolicy | None, imitation: Imitation | None
) -> TrainingJob:
    """Return the training from the weights of `first`, or of the imitation, or from random ones."""

    def without(windows: Sequence[int]) -> TrainingJob:
        left_out, other = set(windows), imitation
        data = {**identity.data, "left_out": list(windows)}
        if other is not None:
            other = replace(other, left_out=tuple(windows))
            data["imitated"] = other.provenance()
        rest = replace(
            problem,
            train=[w for w in problem.train if w not in left_out],
            validation=[w for w in problem.validation if w not in left_out],
        )
        return _job(replace(identity, data=data), rest, first, other)

    def begin(out: Path, resume_s: float) -> Prepared:
        config = identity.config
        module = import_module(identity.module)
        shape = getattr(module, "fit", fit_network)
        network: AnyNetwork = first.network if first else shape(problem, config.network)
        weights: Weights | None = first.weights if first else None
        if imitation is not None:
            imitator = Imitator(identity, network, problem.spec)
            weights = imitate(imitation, imitator, out / IMITATION, resume_s)
        learner: Learner = module.learner(problem, config, network, weights, identity.device)
        steps, seed = identity.steps, identity.seed
        begun = untrained(learner, identity.agent, config, problem.spec, steps=steps, seed=seed)
        callbacks = Callbacks() if problem.guard is None else _guarded(learner)
        return Prepared(learner, begun, callbacks, {"online": identity.data})

    return TrainingJob(identity, problem.spec, begin, without)


def _guarded(learner: Learner) -> Callbacks:
    """Return the selection by the learner's criterion among checkpoints that pass the guard."""

    def select(metrics: Mapping[str, float]) -> float | None:
        score = learner.criterion.score(metrics)
        return None if score is None or not passes(metrics) else score

    return Callbacks(select=select, selected_by=learner.criterion.metric)


def settings_of(recipe: Recipe, agent: str | None = None) -> tuple[str, Any]:
    """Return the agent of a recipe's [online], or the given one, and its Config.

    Raises RecipeError if the recipe has a setting that the agent does not have, or if the agent is
    for another scenario.
    """
    name = agent or recipe.online.agent
    if not name:
        raise RecipeError(f"{recipe.id} has no [online] agent; give --agent NAME")
    only = online_agent(name).scenarios
    if only and recipe.scenario not in only:
        raise RecipeError(
            f"{name} is for {', '.join(only)}, not for {recipe.scenario} ({recipe.id})"
        )
    where = f"{recipe.id}: online.settings of {name}"
    return name, read_online_config(name, recipe.online.settings, where)


def read_start(folders: Sequence[Path], spec: Spec, agent: str, own: Any) -> LearnedPolicy:
    """Return the policy of a checkpoint to continue from, or the ensemble of several.

    `own` are the settings of the agent's network. A candidate scorer continues from any other, a
    network of another architecture from one of its kind. Widths and normalisation are those of the
    checkpoint. Raises DatasetError if a checkpoint does not fit the spec, the agent or the others.
    """
    found = [_read_one(folder, agent, own) for folder in folders]
    policy = mean_of_scores(found, [str(folder) for folder in folders])
    policy.check(spec)
    return policy


def _read_one(folder: Path, agent: str, own: Any) -> LearnedPolicy:
    """Return the policy of a checkpoint; raise DatasetError if an agent cannot start from it.

    `own` are the settings of the agent's network. The checkpoint's network must be of their class,
    and choose by its scores alone.
    """
    policy = load_policy(folder)
    network: AnyNetwork = policy.network
    if not isinstance(network.settings, type(own)):
        raise DatasetError(
            f"{folder}: {policy.name} is {_form(network.settings)}, but {agent} needs {_form(own)}"
        )
    if network.threshold > 0.0:
        raise DatasetError(
            f"{folder}: {policy.name} does not choose by its scores alone, so training cannot "
            "start from it; start from behaviour_cloning, for example"
        )
    return policy


def _form(settings: Any) -> str:
    """Return the words for a network of these settings in an error."""
    scores = isinstance(settings, NetworkSettings)
    return "a candidate scorer" if scores else f"a network of kind {settings.kind!r}"


def problem_of(recipe: Recipe, seed: int, workers: int) -> Problem:
    """Return the problem of a recipe: its train and validation windows.

    Raises RecipeError if the recipe has no train windows, or the workload not all of its windows.
    """
    if "train" not in recipe.split:
        raise RecipeError(f"{recipe.id}: [split] has no train windows to play")
    workload = load_source(recipe)
    known = load_scenario(recipe.scenario).windows(recipe.config, workload)
    splits = [split for split in ("train", "validation") if split in recipe.split]
    last = max(window for split in splits for window in recipe.windows(split))
    if last >= known:
        raise RecipeError(
            f"{recipe.id}: [split] names window {last}, but the workload has {known} windows"
        )
    windows = played.windows_of(recipe, workload, seed, workers)
    guard, sources = guard_of(recipe, workload, seed, workers), _sources(recipe, workload)
    return Problem(**vars(windows), guard=guard, sources=sources)


def _sources(recipe: Recipe, workload: Workload) -> list[tuple[str, str]]:
    """Return names and SHA-256 of the files that a workload was read from; [] if it was drawn."""
    found = [(file.name, file.sha256) for file in workload.provenance.files]
    if recipe.trace.format == INGESTED and opens_trace(recipe):  # other settings, other tables
        manifest = trace_path(recipe) / "manifest.json"
        found.append((manifest.name, sha256_file(manifest)))
    return found
