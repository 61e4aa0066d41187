"""Online training, from a recipe to a checkpoint folder (`hindcast train-online`)."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pipeline.errors import DatasetError, InputError, RecipeError
from pipeline.recipes.problem import further_windows, make_instance
from pipeline.recipes.recipe import Recipe
from pipeline.recipes.workload_source import load_source
from pipeline.scenarios import load_scenario
from pipeline.simulation.spec import Spec
from pipeline.storage.files import make_folder, remove_partials
from pipeline.storage.locks import one_writer
from pipeline.storage.provenance import begin_training, provenance
from pipeline.storage.run_files import BEST, CURVES, step_folder
from policies.delivery import played
from policies.delivery.verdict import Verdict, deliver, eligible_rules, judge_each
from policies.networks import AnyNetwork
from policies.networks.checkpoint import Metric, Trained, load_policy, read_description, save
from policies.networks.policy import LearnedPolicy
from policies.networks.settings import NetworkSettings, Weights
from policies.online import online_agent, read_online_config
from policies.online.guard import guard_of, passes
from policies.online.imitation import FOLDER as IMITATION
from policies.online.imitation import Imitation, Imitator, imitate
from policies.online.problem import Problem, fit_network
from policies.training.devices import find_device, repeatable, torch_setting
from policies.training.fingerprint import finished, training_key
from policies.training.learner import Learner
from policies.training.loop import Callbacks, Point, Progress, Select, fit
from policies.training.resume import ResumeFile
from policies.training.run_folder import clear, write_curves

_RESUME_S: Final = 15.0


@one_writer
def train_online(
    recipe: Recipe,
    *,
    out: Path,
    agent: str | None = None,
    iterations: int | None = None,
    seed: int = 0,
    start: Path | None = None,
    imitation: Imitation | None = None,
    device: str = "auto",
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
    normalisation replace those of the settings. Only the weights are taken over; exploration and
    step sizes start from the beginning. `imitation` trains the agent's network on a dataset before
    it plays. The same recipe, seed, start and dataset give the same bytes for any number of
    `workers` and any number of interruptions. `point` is called with the step and the metrics of
    every point of the curves. Raises UnknownName, RecipeError, DatasetError,
    StorageError, InputError.
    """
    name, config = settings_of(recipe, agent)
    iterations = recipe.online.iterations if iterations is None else iterations
    if iterations < 1:
        raise InputError(f"iterations is {iterations}, expected at least 1")
    if start is not None and imitation is not None:
        raise InputError("train-online: give a checkpoint to start from or a dataset to imitate")
    place = find_device(device)
    problem = problem_of(recipe, seed, workers)
    first = None if start is None else read_start(start, problem.spec, name, config.network)
    if first is not None:
        config = replace(config, network=first.network.settings)
    data: dict[str, Any] = {
        "recipe": recipe.id,
        "digest": recipe.digest,
        "start": None if start is None else read_description(start)["weights"]["sha256"],
    }
    if imitation is not None:
        data |= {"imitated": imitation.provenance()}
    own = online_agent(name).module
    key = training_key(name, own, config, iterations, seed, data, place.type)
    if finished(out, key, checkpoint_every):
        return out
    make_folder(out)
    remove_partials(out)
    resume = ResumeFile(out, key, interval_s=resume_s)
    if not resume.waits():
        clear(out)
    begin_training(out, provenance(torch=torch_setting(place)))
    with repeatable(place):
        module = import_module(own)
        shape = getattr(module, "fit", fit_network)
        network: AnyNetwork = first.network if first else shape(problem, config.network)
        weights: Weights | None = first.weights if first else None
        if imitation is not None:
            imitator = Imitator(name, config, network, problem.spec, seed, place)
            weights = imitate(imitation, imitator, out / IMITATION, resume_s)
        learner: Learner = module.learner(problem, config, network, weights, place)
        made = Trained(name, problem.spec, network, {}, asdict(config), iterations, seed)
        trained_on: dict[str, Any] = {"online": data, "key": key}

        def keep(step: int, weights: Weights, metrics: tuple[Metric, ...]) -> None:
            reached = replace(made, steps=step, weights=weights, metrics=metrics)
            save(reached, step_folder(out, step), {**trained_on, "of_steps": iterations})

        fitted = fit(
            learner,
            iterations,
            Callbacks(
                measure=lambda _weights: {},
                progress=progress or (lambda _done, _all: None),
                point=point,
                every=checkpoint_every,
                keep=keep,
                select=None if problem.guard is None else _guarded(learner),
                selected_by=learner.criterion.metric,
                resume=resume,
            ),
        )
        trained = replace(made, weights=learner.weights(), metrics=fitted.metrics)
    write_curves(trained.metrics, out / CURVES)
    candidates = [] if problem.guard is not None else [trained]
    if fitted.best is not None:
        best = fitted.best
        trained_on["best"] = {"step": best.step, "metric": best.metric, "score": best.score}
        chosen = replace(trained, steps=best.step, weights=best.weights, metrics=())
        save(chosen, out / BEST, {**trained_on, "of_steps": iterations})
        candidates = [chosen, *candidates]
    judge = judge_of(problem)
    judged = judge_each(candidates, judge)
    if not candidates and (verdict := judge(None)) is not None:
        judged = trained, verdict
    if judged is not None:
        deliver(*judged, out, trained_on, iterations)
    save(trained, out, trained_on)
    resume.remove()
    return out


def judge_of(problem: Problem) -> Callable[[LearnedPolicy | None], Verdict | None]:
    """Return the function that compares an agent with the best rule that the guard lets pass.

    Its policy is None if the guard refused every checkpoint of the training.
    """
    names = eligible_rules(problem.spec)
    if problem.guard is not None:
        names = [name for name in names if problem.guard.admits(name)]
    return played.judge_of(problem.to_play(), names)


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


def read_start(folder: Path, spec: Spec, agent: str, own: Any) -> LearnedPolicy:
    """Return the policy of a checkpoint to continue from; raise DatasetError if it does not fit.

    `own` are the settings of the agent's network. A candidate scorer continues from any other, a
    network of another architecture from one of its kind. Widths and normalisation are those of the
    checkpoint.
    """
    policy = load_policy(folder)
    network: AnyNetwork = policy.network
    if not isinstance(network.settings, type(own)):
        raise DatasetError(
            f"{folder}: {policy.name} is {_form(network.settings)}, but {agent} needs {_form(own)}"
        )
    policy.check(spec)
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
    )
