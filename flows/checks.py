"""What can be refused before anything is started: one check per command, each an InputError.

The steps refuse the same things; here it happens before the seconds that Prefect takes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import InputError, RecipeError, TraceError, unknown_name
from pipeline.recipes.recipe import Recipe


def ingest(trace_format: str, path: Path, **_others: Any) -> None:
    """Raise for an unknown format, or a trace that is not there."""
    from pipeline.traces import FORMATS

    if trace_format not in FORMATS:
        raise unknown_name("trace format", trace_format, FORMATS)
    if not path.exists():
        raise TraceError(f"{path}: no such file or folder; expected {FORMATS[trace_format].path}")


def build(
    recipe: str,
    overrides: Sequence[str],
    out: Path | None = None,
    append: bool = False,
    **_others: Any,
) -> None:
    """Raise for a recipe that is not valid, or policies that do not exist, or does not fit."""
    from pipeline.recipes.loading import load_recipe
    from policies.registry import behaviours

    loaded = load_recipe(recipe, overrides)
    behaviours(loaded)
    if append and out is not None:
        from pipeline.dataset.append_history import check_fits
        from pipeline.dataset.manifest import read_manifest

        check_fits(read_manifest(out).recipes, loaded, str(out))


def train(
    dataset: Path,
    agent: str,
    device: str = "auto",
    tensorboard: str | None = None,
    **_others: Any,
) -> None:
    """Raise for an unknown agent or device, or a folder that is no dataset."""
    from pipeline.dataset.manifest import read_manifest
    from policies.offline import agent as find_agent

    find_agent(agent)
    read_manifest(dataset)
    if device != "auto" or tensorboard is not None:  # else torch need not be loaded here
        from policies.training.devices import find_device
        from policies.training.tensorboard import check_board

        find_device(device)
        check_board(tensorboard)


def train_online(
    recipe: str,
    overrides: Sequence[str],
    agent: str | None = None,
    start: Path | None = None,
    imitate: Path | None = None,
    device: str = "auto",
    **_others: Any,
) -> None:
    """Raise for a recipe or settings that are not valid, an unknown agent or device, no start."""
    from pipeline.dataset.manifest import read_manifest
    from pipeline.recipes.loading import load_recipe
    from policies.networks.checkpoint import read_description
    from policies.online.training import settings_of
    from policies.training.devices import find_device

    settings_of(load_recipe(recipe, overrides), agent)
    find_device(device)
    if start is not None and imitate is not None:
        raise InputError("train-online: give --from or --imitate")
    if start is not None:
        read_description(start)
    if imitate is not None:
        read_manifest(imitate)


def sweep(
    dataset: Path, sweep: dict[str, Any], where: str, device: str = "auto", **_others: Any
) -> None:
    """Raise for a sweep that is not valid, an unknown device, or a folder that is no dataset."""
    from pipeline.dataset.manifest import read_manifest
    from policies.offline.sweep import plan
    from policies.training.devices import find_device

    plan(sweep, where)
    read_manifest(dataset)
    find_device(device)


def evaluate(
    recipe: str, overrides: Sequence[str], policies: Sequence[str], split: str, **_others: Any
) -> None:
    """Raise for a recipe that is not valid, or policies, checkpoints or a split it has not."""
    from pipeline.recipes.loading import load_recipe
    from policies.entrants import candidates

    loaded = load_recipe(recipe, overrides)
    loaded.windows(split)
    candidates(loaded, policies or loaded.evaluate.policies)


def report(evaluations: Sequence[Path], **_others: Any) -> None:
    """Raise for folders that are no evaluations."""
    from pipeline.evaluation.summary.evaluations import read_evaluation

    for folder in evaluations:
        read_evaluation(folder)


def run(recipe: str, overrides: Sequence[str], **_others: Any) -> None:
    """Raise for a recipe that is not valid, or policies or agents that do not exist."""
    from pipeline.recipes.loading import load_recipe

    loaded = load_recipe(recipe, overrides)
    build(recipe, overrides)
    if loaded.train.agents and not loaded.behaviours:
        raise RecipeError(
            f"{loaded.id}: train.agents, but without [[behaviours]] there is no dataset to learn "
            "from"
        )
    evaluate(recipe, overrides, (), "test")
    train_settings(loaded)
    online_settings(loaded)
    metrics_of(loaded)


def study(
    recipe: str,
    overrides: Sequence[str],
    agents: Sequence[str],
    vary: str,
    values: Sequence[str],
    seeds: Sequence[int],
    steps: int | None = None,
    **_others: Any,
) -> None:
    """Raise for a study whose points are not all valid runs."""
    from pipeline.studies.study import plan

    for point in plan(recipe, overrides, agents, seeds, steps, vary, values):
        run(recipe, point.overrides)


def train_settings(recipe: Recipe) -> None:
    """Raise for agents of [train] that do not exist, and settings that they do not have."""
    from pipeline.errors import did_you_mean
    from policies.offline import agent as find_agent
    from policies.offline import agents_for, read_config

    agents = agents_for(recipe.train.agents, recipe.scenario)
    for agent in (*agents, *recipe.train.settings):
        find_agent(agent)
    for agent in agents:
        recipe.train.steps_of(agent)
    for agent in recipe.train.settings:
        if agent not in agents:
            raise RecipeError(
                f"{recipe.id}: train.settings.{agent}, but train.agents names no {agent!r}; "
                f"{did_you_mean(agent, agents)}"
            )
        read_config(agent, recipe.train.settings_of(agent))


def online_settings(recipe: Recipe) -> None:
    """Raise for an [online] that a run cannot train."""
    if not recipe.online.agent:
        return
    from policies.online.training import settings_of

    settings_of(recipe)
    seeds = recipe.online.seeds
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise RecipeError(
            f"{recipe.id}: online.seeds is {list(seeds)}, expected one or more, none twice or "
            "below 0"
        )
    if recipe.online.imitate_steps and not recipe.behaviours:
        raise RecipeError(
            f"{recipe.id}: online.imitate_steps is {recipe.online.imitate_steps}, but without "
            "[[behaviours]] there is no dataset to imitate"
        )


def metrics_of(recipe: Recipe) -> None:
    """Raise for metrics of [evaluate] that the scenario does not book."""
    from pipeline.evaluation.evaluate import COMMON
    from pipeline.scenarios import load_scenario

    spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
    known = [o.name for o in (*spec.outcomes, *COMMON)]
    for metric in recipe.evaluate.metrics:
        if metric not in known:
            raise unknown_name("metric", metric, known)
