"""The public face of Hindcast: what its examples, its documentation and other projects import.

    import hindcast

    dataset = hindcast.build("binpack-synthetic-v1", "demo/dataset", workers=2)
    hindcast.verify(dataset)
    agent = hindcast.train(dataset, "cql", out="demo/agents/cql", steps=2000)
    result = hindcast.evaluate(
        "binpack-synthetic-v1", ["tetris", agent], out="demo/evaluation"
    )
    print(result.means)          # mean headline outcome by policy

A recipe is the id of one that comes with Hindcast, the path of a recipe.toml, the folder of a
dataset, or a Recipe. Wherever a folder is asked for, a URL will do (s3://bucket/demo). The same
errors are raised everywhere: `hindcast.errors.InputError` for what a caller can put right.

The packages behind it (`pipeline`, `policies`, `flows`) are loaded when a name of theirs is used.
"""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:  # real types for editors and mypy; at run time __getattr__ finds them
    from pipeline import errors, testing
    from pipeline.dataset import Dataset
    from pipeline.dataset.decisions import Decisions
    from pipeline.evaluation.evaluate import EvaluateResult
    from pipeline.exports import Export, ExportResult
    from pipeline.gymnasium_env import SchedulingEnv
    from pipeline.recipes.recipe import Recipe
    from pipeline.scenarios import register_scenario
    from pipeline.simulation import kernel
    from pipeline.simulation.policy import Heuristic, Policy
    from pipeline.simulation.scenario import Instance, Scenario
    from pipeline.simulation.spec import Feature, Outcome, Spec
    from pipeline.traces import TraceFormat
    from pipeline.verification.verify import VerifyResult
    from policies.networks.policy import LearnedPolicy
    from policies.offline import Agent
    from policies.online import OnlineAgent

    __version__: str

Place: TypeAlias = Path | str  # of a file or folder: a path, or a URL as text

__all__ = [
    "Agent", "Dataset", "Decisions", "Export", "Feature", "Heuristic", "Instance", "OnlineAgent",
    "Outcome", "Policy", "Scenario", "Spec", "TraceFormat", "__version__", "append", "build",
    "errors", "evaluate", "export", "kernel", "load_policy", "load_recipe", "make_env",
    "open_dataset", "register_agent", "register_export", "register_scenario",
    "register_trace_format", "testing", "train", "verify",
]  # fmt: skip

# Where the names are that are no functions of this file: a module, or a module's attribute.
_PLACES: Final[Mapping[str, str]] = {
    "Agent": "policies.offline:Agent",
    "Dataset": "pipeline.dataset:Dataset",
    "Decisions": "pipeline.dataset.decisions:Decisions",
    "Export": "pipeline.exports:Export",
    "Feature": "pipeline.simulation.spec:Feature",
    "Heuristic": "pipeline.simulation.policy:Heuristic",
    "Instance": "pipeline.simulation.scenario:Instance",
    "OnlineAgent": "policies.online:OnlineAgent",
    "Outcome": "pipeline.simulation.spec:Outcome",
    "Policy": "pipeline.simulation.policy:Policy",
    "Scenario": "pipeline.simulation.scenario:Scenario",
    "Spec": "pipeline.simulation.spec:Spec",
    "TraceFormat": "pipeline.traces:TraceFormat",
    "errors": "pipeline.errors",
    "kernel": "pipeline.simulation.kernel",
    "register_scenario": "pipeline.scenarios:register_scenario",
    "testing": "pipeline.testing",
}

if not TYPE_CHECKING:  # which would take any name for one of this module

    def __getattr__(name: str) -> Any:
        """Return a name of the face that is not loaded yet (PEP 562)."""
        if name == "__version__":
            from pipeline.storage.versions import version

            return version()
        if name not in _PLACES:
            raise AttributeError(f"module 'hindcast' has no attribute {name!r}")
        module, _, attribute = _PLACES[name].partition(":")
        found = importlib.import_module(module)
        found = getattr(found, attribute) if attribute else found
        globals()[name] = found  # the next access comes here no more
        return found


def __dir__() -> list[str]:
    """Return the names of the face."""
    return sorted(__all__)


def load_recipe(recipe: Place, overrides: Sequence[str] = ()) -> "Recipe":
    """Return a recipe: what a dataset, its agents and its evaluation are made from.

    Args:
        recipe: Id of a recipe that comes with Hindcast, path of a recipe.toml, or folder of a
            dataset, which is a recipe too.
        overrides: Values to replace, as `section.key=value` with a TOML value each.

    Raises:
        RecipeError: There is no such recipe, or a key or value is not valid.
    """
    from pipeline.recipes.loading import load_recipe as load

    return load(recipe, overrides)


def open_dataset(path: Place) -> "Dataset":
    """Return a dataset, opened for reading; works on datasets larger than memory.

    Args:
        path: Its folder, or the URL of its folder in a store.

    Raises:
        DatasetError: The folder holds no finished dataset.
    """
    from pipeline import dataset

    return dataset.open(path)


def build(
    recipe: "Recipe | Place", out: Place, *, overrides: Sequence[str] = (), workers: int = 1
) -> "Dataset":
    """Build the dataset of a recipe, or finish a build that was interrupted, and open it.

    Args:
        recipe: The recipe, see `load_recipe`.
        out: Folder of the dataset; where it is built already, nothing is done.
        overrides: Values of the recipe to replace, as `section.key=value`.
        workers: Threads that record; the bytes are the same for any number.

    Raises:
        InputError: The recipe is not valid, its trace cannot be read, or `out` holds something
            else or cannot be written.
    """
    from pipeline.building.build import build as make
    from pipeline.storage.location import location
    from policies.registry import behaviours

    loaded = _loaded(recipe, overrides)
    return open_dataset(make(loaded, behaviours(loaded), location(out), workers=workers).folder)


def append(
    recipe: "Recipe | Place", out: Place, *, overrides: Sequence[str] = (), workers: int = 1
) -> "Dataset":
    """Add a recipe's episodes to a finished dataset, as new parts, and open it.

    Args:
        recipe: A recipe of the same problem as the dataset's, see `load_recipe`.
        out: Folder of the dataset.
        overrides: Values of the recipe to replace, as `section.key=value`.
        workers: Threads that record; the bytes are the same for any number.

    Raises:
        DatasetError: `out` is no finished dataset, or one of another problem.
    """
    from pipeline.building.append import append as add
    from pipeline.storage.location import location
    from policies.registry import behaviours

    loaded = _loaded(recipe, overrides)
    return open_dataset(add(loaded, behaviours(loaded), location(out), workers=workers).folder)


def verify(dataset: "Dataset | Place") -> "VerifyResult":
    """Compute every claim of a dataset again, down to each decision in the simulator.

    Args:
        dataset: The dataset, or its folder.

    Returns:
        The checks that were made, `checks`, as pairs of a name and what was checked.

    Raises:
        VerificationFailed: The first claim that does not hold.
        DatasetError: The folder holds no dataset.
    """
    from pipeline.verification.verify import verify as check
    from policies.registry import recorded_behaviours

    folder = _folder(dataset)
    return check(folder, recorded_behaviours(folder))


def train(
    dataset: "Dataset | Place",
    agent: str,
    *,
    out: Place,
    steps: int = 2000,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
) -> Path:
    """Train an offline agent on the train split of a dataset and write its checkpoint.

    Args:
        dataset: The dataset, or its folder.
        agent: Name of an agent, one of those that `hindcast train --help` lists.
        out: Folder of the checkpoint; `best` below it is the one that the validation split chose.
            An interrupted training goes on there, a finished one is left as it is.
        steps: Gradient steps.
        seed: Every random draw of the training descends from it.
        settings: Settings of the agent to replace, by dotted name: `{"network.hidden": [64]}`.
        device: "cpu", "cuda", or "auto", a GPU where there is one.

    Returns:
        The folder of the checkpoint, a policy for `evaluate` and `load_policy`.

    Raises:
        InputError: The agent, a setting, the dataset or the device cannot be used.
    """
    from pipeline.storage.location import location
    from policies.offline.training import train as fit

    return fit(
        _folder(dataset), agent, steps=steps, seed=seed, out=location(out), settings=settings,
        device=device,
    )  # fmt: skip


def evaluate(
    recipe: "Recipe | Place",
    policies: "Sequence[Policy | Place]" = (),
    *,
    out: Place,
    split: str = "test",
    overrides: Sequence[str] = (),
    workers: int = 1,
) -> "EvaluateResult":
    """Score policies, all on the same windows of a recipe.

    Args:
        recipe: The recipe, see `load_recipe`.
        policies: Names of rules, folders of checkpoints, "behaviour" for the log itself, or
            objects with `name` and `scores`; the recipe's own by default.
        out: Folder for scores.parquet and evaluation.json; `hindcast report` makes a page of it.
        split: "train", "validation", "test" or "all".
        overrides: Values of the recipe to replace, as `section.key=value`.
        workers: Threads that run episodes; they change no result.

    Returns:
        The folder, the number of scores, and `means`: the mean headline outcome by policy, in the
        outcome's unit.

    Raises:
        InputError: A policy, the split or the recipe does not exist, or does not fit.
    """
    from pipeline.evaluation.evaluate import Entrant
    from pipeline.evaluation.evaluate import evaluate as score
    from pipeline.simulation.policy import Behaviour
    from pipeline.storage.location import location
    from policies.entrants import entrants

    loaded, found = _loaded(recipe, overrides), []
    for policy in policies or loaded.evaluate.policies:
        if isinstance(policy, str) or not hasattr(policy, "scores"):
            found += entrants(loaded, [str(policy)])
        else:
            found.append(Entrant(Behaviour(policy.name, policy), "heuristic", policy.name))
    return score(loaded, found, split=split, out=location(out), workers=workers)


def export(
    dataset: "Dataset | Place", to: str, out: Place, *, candidates: int | None = None
) -> "ExportResult":
    """Write a dataset in the format of another tool.

    Args:
        dataset: The dataset, or its folder.
        to: Name of the format, one of those that `hindcast export --help` lists.
        out: The new folder, or the new file where the format is one.
        candidates: K of a format that pads every decision to K candidates; by default as many as
            the largest has, so that nothing is cut.

    Raises:
        InputError: There is no such format, it cannot hold the dataset, or `out` is taken.
    """
    from pipeline.exports import export as write

    return write(_folder(dataset), to, out, candidates=candidates)


def load_policy(folder: Place) -> "LearnedPolicy":
    """Return the policy of a checkpoint folder; nothing in it is unpickled.

    Args:
        folder: Folder that a training wrote, or its `best`.

    Raises:
        DatasetError: The folder holds no checkpoint, or a damaged one.
    """
    from pipeline.storage.location import location
    from policies.networks.checkpoint import load_policy as load

    return load(location(folder))


def make_env(
    recipe: "Recipe | Place",
    *,
    overrides: Sequence[str] = (),
    split: str = "train",
    candidates: int | None = None,
    strict: bool = False,
) -> "SchedulingEnv":
    """Return a recipe's windows as a gymnasium.Env: candidates padded to K, the mask in `info`.

    Args:
        recipe: The recipe, see `load_recipe`.
        overrides: Values of the recipe to replace, as `section.key=value`.
        split: The split whose windows are episodes, "all" for every window.
        candidates: K; by default as many as the first windows can have, at most 128.
        strict: Raise InfeasibleChoice for an action that the mask forbids, instead of ignoring it.

    Raises:
        InputError: The recipe or the split does not exist.
    """
    from pipeline.gymnasium_env import SchedulingEnv

    loaded = _loaded(recipe, overrides)
    return SchedulingEnv(
        loaded, windows=loaded.windows(split), candidates=candidates, strict=strict
    )


def register_agent(agent: "Agent | OnlineAgent") -> None:
    """Make an agent known under its name, wherever the name of an agent is asked for.

    Args:
        agent: An Agent, which learns from datasets, or an OnlineAgent, which plays. Its `module`
            is the dotted name of the module with its Config and learner, loaded when it is used.

    Raises:
        InputError: The name is taken.
    """
    from policies.offline import AGENTS, Agent
    from policies.online import ONLINE_AGENTS

    if isinstance(agent, Agent):
        AGENTS.register(agent.name, agent)
    else:
        ONLINE_AGENTS.register(agent.name, agent)


def register_trace_format(form: "TraceFormat") -> None:
    """Make a format of raw traces known, in recipes and to `hindcast ingest`.

    Args:
        form: The format with its reader, which `hindcast.testing.check_trace_format` checks.

    Raises:
        InputError: The name is taken.
    """
    from pipeline.traces import FORMATS

    FORMATS.register(form.name, form)


def register_export(form: "Export") -> None:
    """Make an export known to `export` and `hindcast export`.

    Args:
        form: The format; its `module` is the dotted name of the module with the function
            `export(dataset, out, candidates, tell)`, loaded when it is used.

    Raises:
        InputError: The name is taken.
    """
    from pipeline.exports import EXPORTS

    EXPORTS.register(form.name, form)


def _loaded(recipe: "Recipe | Place", overrides: Sequence[str]) -> "Recipe":
    from pipeline.errors import InputError
    from pipeline.recipes.recipe import Recipe

    if not isinstance(recipe, Recipe):
        return load_recipe(recipe, overrides)
    if overrides:
        raise InputError(f"{recipe.id}: overrides are for a recipe that is still to be loaded")
    return recipe


def _folder(dataset: "Dataset | Place") -> Path:
    from pipeline.storage.location import location

    return location(getattr(dataset, "folder", dataset))
