"""Online training, from a recipe to a checkpoint folder (`hindcast train-online`)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_args

import torch

from hindcast.pipeline.errors import DatasetError, InputError, RecipeError, unknown_name
from hindcast.pipeline.notes import tell
from hindcast.pipeline.recipes.problem import further_windows, make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import INGESTED, load_source, opens_trace, trace_path
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.files import make_folder, remove_folder, remove_partials, sha256_file
from hindcast.pipeline.storage.locks import one_writer
from hindcast.pipeline.storage.provenance import begin_training, provenance
from hindcast.pipeline.storage.run_files import FOLDS, step_folder
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.delivery import played
from hindcast.policies.delivery.checkpoints import (
    decide_again,
    finished_otherwise,
    policies_of,
    write_training,
)
from hindcast.policies.delivery.folds import FOLDS as COUNT
from hindcast.policies.networks import AnyNetwork
from hindcast.policies.networks.checkpoint import (
    Metric,
    Trained,
    load_policy,
    read_description,
    save,
)
from hindcast.policies.networks.ensemble import mean_of_scores
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import NetworkSettings, Weights
from hindcast.policies.online import online_agent, read_online_config
from hindcast.policies.online.gates import OnlineGate, decide_by
from hindcast.policies.online.guard import guard_of, passes
from hindcast.policies.online.imitation import FOLDER as IMITATION
from hindcast.policies.online.imitation import Imitation, Imitator, imitate
from hindcast.policies.online.problem import Problem, fit_network
from hindcast.policies.training.devices import find_device, repeatable, torch_setting
from hindcast.policies.training.fingerprint import finished, training_key
from hindcast.policies.training.learner import Learner
from hindcast.policies.training.loop import Callbacks, Point, Progress, Select, fit
from hindcast.policies.training.resume import ResumeFile
from hindcast.policies.training.run_folder import clear

_RESUME_S: Final = 15.0


@one_writer
def train_online(
    recipe: Recipe,
    *,
    out: Path,
    agent: str | None = None,
    iterations: int | None = None,
    seed: int = 0,
    start: Sequence[Path] = (),
    imitation: Imitation | None = None,
    device: str = "auto",
    gate: OnlineGate = "simulator",
    workers: int = 1,
    checkpoint_every: int | None = None,
    progress: Progress | None = None,
    point: Point | None = None,
    resume_s: float = _RESUME_S,
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

    Agent and iterations are by default those of the recipe's [online]. `start` is the checkpoint of
    a network to continue from, of an offline agent or of this agent: its architecture and its
    normalisation replace those of the settings. With several checkpoints, the network is their
    ensemble, whose scores are the means of theirs (hindcast.policies.networks.ensemble). Only the
    weights are taken over; exploration and step sizes start from the beginning. By default, an
    ensemble has no iterations: it is judged and delivered as it is. `imitation` trains the agent's
    network on a dataset before it plays. `gate` compares the checkpoints with the best rule of the
    scenario on the validation windows, or with trainings without parts of the train windows, which
    lie in out/folds until they have played (hindcast.policies.delivery). A training that is
    finished with another gate is judged, not repeated. The same recipe, seed, start and dataset
    give the same bytes for any number of `workers` and any number of interruptions. `point` is
    called with the step and the metrics of every point of the curves. Raises UnknownName,
    RecipeError, DatasetError, StorageError, InputError.
    """
    if gate not in get_args(OnlineGate):
        raise unknown_name("gate", gate, get_args(OnlineGate))
    name, config = settings_of(recipe, agent)
    ensemble = len(start) > 1
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
    place = find_device(device)
    problem = problem_of(recipe, seed, workers)
    first = read_start(start, problem.spec, name, config.network) if start else None
    if first is not None:
        config = replace(config, network=first.network.settings)
    if gate == "folds" and len(problem.train) == 1:
        raise RecipeError(f"{recipe.id}: --gate folds leaves out train windows, but there is one")
    job = _Job(
        recipe, name, config, iterations, seed, tuple(start), first, imitation, place, gate,
        resume_s, problem.sources,
    )  # fmt: skip
    data = job.data()
    key = job.key(data)
    if finished(out, key, checkpoint_every):
        return out
    decide = decide_by(problem, gate, partial(_without, job, problem, out))
    others = [replace(job, gate=other).key(data) for other in get_args(OnlineGate)]
    if finished_otherwise(out, others, checkpoint_every):
        decide_again(out, problem.spec, key, iterations, decide)
    else:
        reporting = _Reporting(progress, point, checkpoint_every)
        trained, described = _fit(job, problem, out, {"online": data, "key": key}, reporting)
        write_training(out, described, trained, decide)
        ResumeFile(out, key).remove()
    remove_folder(out / FOLDS)
    return out


@dataclass(frozen=True)
class _Job:
    """Settings that determine, with the windows, the weights of a training and its delivery."""

    recipe: Recipe
    agent: str
    config: Any
    iterations: int
    seed: int
    start: tuple[Path, ...]
    first: LearnedPolicy | None
    imitation: Imitation | None
    place: torch.device
    gate: OnlineGate
    resume_s: float
    sources: Sequence[tuple[str, str]]

    def without(self, windows: Sequence[int]) -> "_Job":
        """Return the job that does not imitate episodes of these windows."""
        if self.imitation is None:
            return self
        return replace(self, imitation=replace(self.imitation, left_out=tuple(windows)))

    def data(self, left_out: Sequence[int] = ()) -> dict[str, Any]:
        """Return what identifies the windows of a training, and the start of its weights."""
        started = [read_description(folder)["weights"]["sha256"] for folder in self.start]
        start = started if len(started) > 1 else next(iter(started), None)
        found = {"recipe": self.recipe.id, "digest": self.recipe.digest, "start": start}
        if self.sources:  # the recipe's digest covers the place of a log, not what it holds
            found["trace"] = [{"name": name, "sha256": sha} for name, sha in self.sources]
        if self.imitation is not None:
            found["imitated"] = self.imitation.provenance()
        return {**found, "left_out": list(left_out)} if left_out else found

    def key(self, data: Mapping[str, Any]) -> str:
        """Return the key of the training on this data."""
        return training_key(
            self.agent, online_agent(self.agent).module, self.config, self.iterations, self.seed,
            data, self.place.type, gate=self.gate,
        )  # fmt: skip


@dataclass(frozen=True)
class _Reporting:
    """Callbacks of a training while it runs."""

    progress: Progress | None = None
    point: Point | None = None
    checkpoint_every: int | None = None


def _fit(
    job: _Job, problem: Problem, out: Path, told: dict[str, Any], reporting: _Reporting
) -> tuple[Trained, dict[str, Any]]:
    """Train in the folder `out`, and return the result with a description of the training.

    `told` has the data and the key of the training.
    """
    make_folder(out)
    remove_partials(out)
    resume = ResumeFile(out, told["key"], interval_s=job.resume_s)
    if not resume.waits():
        clear(out)
    begin_training(out, provenance(torch=torch_setting(job.place)))
    first = job.first
    with repeatable(job.place):
        module = import_module(online_agent(job.agent).module)
        shape = getattr(module, "fit", fit_network)
        network: AnyNetwork = first.network if first else shape(problem, job.config.network)
        weights: Weights | None = first.weights if first else None
        if job.imitation is not None:
            imitator = Imitator(job.agent, job.config, network, problem.spec, job.seed, job.place)
            weights = imitate(job.imitation, imitator, out / IMITATION, job.resume_s)
        learner: Learner = module.learner(problem, job.config, network, weights, job.place)
        made = Trained(
            job.agent, problem.spec, network, {}, asdict(job.config), job.iterations, job.seed
        )
        described = {**told, "of_steps": job.iterations}

        def keep(step: int, weights: Weights, metrics: tuple[Metric, ...]) -> None:
            reached = replace(made, steps=step, weights=weights, metrics=metrics)
            save(reached, step_folder(out, step), described)

        fitted = fit(
            learner,
            job.iterations,
            Callbacks(
                measure=lambda _weights: {},
                progress=reporting.progress or (lambda _done, _all: None),
                point=reporting.point,
                every=reporting.checkpoint_every,
                keep=keep,
                select=None if problem.guard is None else _guarded(learner),
                selected_by=learner.criterion.metric,
                resume=resume,
            ),
        )
    trained = replace(made, weights=learner.weights(), metrics=fitted.metrics, best=fitted.best)
    return trained, described


def _without(
    job: _Job, problem: Problem, out: Path, number: int, windows: Sequence[int]
) -> dict[str, LearnedPolicy]:
    """Return the policies of a training without some windows; they lie in OUT/folds."""
    rest, folder, left_out = job.without(windows), out / FOLDS / str(number), set(windows)
    data = rest.data(windows)
    key = rest.key(data)
    if not finished(folder, key, None):
        tell(f"fold {number + 1} of {COUNT}: trained without {len(windows)} windows")
        some = replace(
            problem,
            train=[w for w in problem.train if w not in left_out],
            validation=[w for w in problem.validation if w not in left_out],
        )
        trained, described = _fit(rest, some, folder, {"online": data, "key": key}, _Reporting())
        write_training(folder, described, trained, lambda _: None)
        ResumeFile(folder, key).remove()
    return policies_of(folder)


def _guarded(learner: Learner) -> Select:
    """Return the selection by the learner's criterion among checkpoints that pass the guard."""
    metric, sign = learner.criterion.metric, 1.0 if learner.criterion.better == "higher" else -1.0

    def select(_weights: Weights, metrics: Mapping[str, float]) -> float | None:
        score = metrics.get(metric)
        return None if score is None or not passes(metrics) else sign * score

    return select


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
    """Return the policy of a checkpoint; raise DatasetError if an agent cannot start from it."""
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
    """Return the problem of a recipe: its train and validation windows."""
    if "train" not in recipe.split:
        raise RecipeError(f"{recipe.id}: [split] has no train windows to play")
    scenario, workload = load_scenario(recipe.scenario), load_source(recipe)
    known = scenario.windows(recipe.config, workload)
    train = recipe.windows("train")
    validation = recipe.windows("validation") if "validation" in recipe.split else []
    if max([*train, *validation]) >= known:
        raise RecipeError(
            f"{recipe.id}: [split] names window {max([*train, *validation])}, but the workload has "
            f"{known} windows"
        )
    return Problem(
        scenario,
        scenario.spec(recipe.config, recipe.objective),
        lambda window: make_instance(recipe, scenario, workload, window),
        train,
        validation,
        seed,
        workers,
        guard_of(recipe, workload, seed, workers),
        further_windows(recipe, known, played.FURTHER),
        _sources(recipe, workload),
        played.stretches_of(recipe),
    )


def _sources(recipe: Recipe, workload: Workload) -> list[tuple[str, str]]:
    """Return names and SHA-256 of the files that a workload was read from; [] if it was drawn."""
    found = [(file.name, file.sha256) for file in workload.provenance.files]
    if recipe.trace.format == INGESTED and opens_trace(recipe):  # other settings, other tables
        manifest = trace_path(recipe) / "manifest.json"
        found.append((manifest.name, sha256_file(manifest)))
    return found
