"""Hindcast: offline reinforcement learning for cluster job scheduling.

    import hindcast

    dataset = hindcast.build("binpack-synthetic-v1", "demo/dataset", workers=2)
    hindcast.verify(dataset)
    agent = hindcast.train(dataset, "cql", out="demo/agents/cql", steps=2000)
    result = hindcast.evaluate(
        "binpack-synthetic-v1", ["tetris", agent], out="demo/evaluation"
    )
    print(result.means)          # mean headline outcome by policy

This module is the public interface of Hindcast. Its names by task:

    answer from a log           whatif, behaviour, ingest, init
    make and read datasets      build, append, verify, export, open_dataset, Dataset, Decisions
    select from datasets        filter, merge, split
    train and score policies    train, train_online, load_policy, evaluate, ope, report
    decide for a real machine   load_decider
    step through episodes       make_env, register_envs
    read recipes                load_recipe
    write a scenario            Scenario, Spec, Feature, Outcome, Instance, Heuristic, kernel,
                                register_scenario
    write a policy or agent     Policy, Agent, OnlineAgent, register_agent
    write a reader or export    TraceFormat, register_trace_format, Export, register_export
    test any of these           testing
    handle errors               errors

A `recipe` argument is the id of a recipe that comes with Hindcast, the path of a recipe.toml, the
folder of a dataset, or a Recipe from `load_recipe`. Every argument that is a folder may also be a
URL (s3://bucket/demo). Every mistake that the caller can correct raises a
`hindcast.errors.InputError`.

`import hindcast` is fast: the packages behind it (`pipeline`, `policies`, `flows`) are loaded
when one of their names is used.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:  # for editors and mypy; at run time __getattr__ imports these names
    from hindcast.flows.calls import behaviour, ingest, init, ope, report, train_online, whatif
    from hindcast.pipeline import errors, testing
    from hindcast.pipeline.dataset import Dataset
    from hindcast.pipeline.dataset.decisions import Decisions
    from hindcast.pipeline.dataset.verification.verify import VerifyResult
    from hindcast.pipeline.evaluation.evaluate import EvaluateResult
    from hindcast.pipeline.exports import Export, ExportResult
    from hindcast.pipeline.gymnasium_env.single import SchedulingEnv
    from hindcast.pipeline.recipes.recipe import Recipe
    from hindcast.pipeline.scenarios import register_scenario
    from hindcast.pipeline.selection.selecting import filter, merge, split  # noqa: A004
    from hindcast.pipeline.simulation import kernel
    from hindcast.pipeline.simulation.policy import Heuristic, Policy
    from hindcast.pipeline.simulation.scenario import Instance, Scenario
    from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec
    from hindcast.pipeline.traces import TraceFormat
    from hindcast.policies.deciding import Decider
    from hindcast.policies.deciding_logs import LogDecider
    from hindcast.policies.networks.policy import LearnedPolicy
    from hindcast.policies.offline import Agent
    from hindcast.policies.online import OnlineAgent

    __version__: str

# A checkout has the folders beside this file; a wheel has all in one folder.
__path__ = [str(Path(__file__).resolve().parent)]

Place: TypeAlias = Path | str  # of a file or folder; a URL is given as text

__all__ = [
    "Agent", "Dataset", "Decisions", "Export", "Feature", "Heuristic", "Instance", "OnlineAgent",
    "Outcome", "Policy", "Scenario", "Spec", "TraceFormat", "__version__", "append", "behaviour",
    "build", "errors", "evaluate", "export", "filter", "ingest", "init", "kernel", "load_decider",
    "load_policy", "load_recipe", "make_env", "merge", "ope", "open_dataset", "register_agent",
    "register_envs", "register_export", "register_scenario", "register_trace_format", "report",
    "split", "testing", "train", "train_online", "verify", "whatif",
]  # fmt: skip

# The module or the module's attribute behind each public name that this file does not define.
_PLACES: Final[Mapping[str, str]] = {
    "Agent": "hindcast.policies.offline:Agent",
    "Dataset": "hindcast.pipeline.dataset:Dataset",
    "Decisions": "hindcast.pipeline.dataset.decisions:Decisions",
    "Export": "hindcast.pipeline.exports:Export",
    "Feature": "hindcast.pipeline.simulation.spec:Feature",
    "Heuristic": "hindcast.pipeline.simulation.policy:Heuristic",
    "Instance": "hindcast.pipeline.simulation.scenario:Instance",
    "OnlineAgent": "hindcast.policies.online:OnlineAgent",
    "Outcome": "hindcast.pipeline.simulation.spec:Outcome",
    "Policy": "hindcast.pipeline.simulation.policy:Policy",
    "Scenario": "hindcast.pipeline.simulation.scenario:Scenario",
    "Spec": "hindcast.pipeline.simulation.spec:Spec",
    "TraceFormat": "hindcast.pipeline.traces:TraceFormat",
    "behaviour": "hindcast.flows.calls:behaviour",
    "errors": "hindcast.pipeline.errors",
    "filter": "hindcast.pipeline.selection.selecting:filter",
    "ingest": "hindcast.flows.calls:ingest",
    "init": "hindcast.flows.calls:init",
    "kernel": "hindcast.pipeline.simulation.kernel",
    "merge": "hindcast.pipeline.selection.selecting:merge",
    "ope": "hindcast.flows.calls:ope",
    "register_scenario": "hindcast.pipeline.scenarios:register_scenario",
    "report": "hindcast.flows.calls:report",
    "split": "hindcast.pipeline.selection.selecting:split",
    "testing": "hindcast.pipeline.testing",
    "train_online": "hindcast.flows.calls:train_online",
    "whatif": "hindcast.flows.calls:whatif",
}

if not TYPE_CHECKING:  # with it, type checkers would accept any name of this module

    def __getattr__(name: str) -> Any:
        """Import and return a public name on its first use (PEP 562)."""
        if name == "__version__":
            from hindcast.pipeline.storage.versions import version

            return version()
        if name not in _PLACES:
            raise AttributeError(f"module 'hindcast' has no attribute {name!r}")
        module, _, attribute = _PLACES[name].partition(":")
        found = importlib.import_module(module)
        found = getattr(found, attribute) if attribute else found
        globals()[name] = found  # so that the next access does not call this function
        return found


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)


def load_recipe(recipe: Place, overrides: Sequence[str] = ()) -> "Recipe":
    """Return a recipe: the definition of a dataset, of its agents and of their evaluation.

    Args:
        recipe: Id of a recipe that comes with Hindcast, path of a recipe.toml, or folder of a
            dataset, which holds its recipe.
        overrides: Values of the recipe to replace, each written `section.key=value` with a TOML
            value.

    Returns:
        The recipe with its overrides.

    Raises:
        RecipeError: The recipe does not exist, or a key or value in it is not valid.
    """
    from hindcast.pipeline.recipes.loading import load_recipe as load

    return load(recipe, overrides)


def open_dataset(path: Place) -> "Dataset":
    """Open a dataset for reading. The dataset may be larger than memory.

    Args:
        path: The dataset's folder, or the URL of its folder in a store.

    Returns:
        The opened dataset.

    Raises:
        DatasetError: The folder holds no finished dataset.
    """
    from hindcast.pipeline import dataset

    return dataset.open(path)


def build(
    recipe: "Recipe | Place", out: Place, *, overrides: Sequence[str] = (), workers: int = 1
) -> "Dataset":
    """Build the dataset of a recipe and open it. An interrupted build is resumed.

    Args:
        recipe: The recipe, see `load_recipe`.
        out: Folder of the dataset. If it holds the finished dataset already, nothing is done.
        overrides: Values of the recipe to replace, each written `section.key=value`.
        workers: Number of threads that record. It does not change the bytes of the dataset.

    Returns:
        The opened dataset.

    Raises:
        InputError: The recipe is not valid, its trace cannot be read, or `out` holds something
            else or cannot be written.
    """
    from hindcast.pipeline.dataset.building.build import build as make
    from hindcast.pipeline.recipes.loading import as_recipe
    from hindcast.pipeline.storage.location import location
    from hindcast.policies.registry import behaviours

    folder, loaded = location(out), as_recipe(recipe, overrides)
    return open_dataset(make(loaded, behaviours(loaded), folder, workers=workers).folder)


def append(
    recipe: "Recipe | Place",
    out: Place,
    *,
    overrides: Sequence[str] = (),
    to: str = "",
    workers: int = 1,
) -> "Dataset":
    """Add the episodes of a recipe to a finished dataset, as new parts, and open the dataset.

    A recipe that was appended before is not appended again, unless `to` is given.

    Args:
        recipe: A recipe of the same problem as the dataset's, see `load_recipe`.
        out: Folder of the dataset.
        overrides: Values of the recipe to replace, each written `section.key=value`.
        to: Digest of the dataset to append to, `dataset.manifest.digest`. With it, a recipe that
            was appended before is appended again; the same call twice still appends once.
        workers: Number of threads that record. It does not change the bytes of the dataset.

    Returns:
        The opened dataset, with its new episodes.

    Raises:
        DatasetError: `out` holds no finished dataset, a dataset of another problem, or one with
            another digest than `to`.
    """
    from hindcast.pipeline.dataset.building.append import append as add
    from hindcast.pipeline.recipes.loading import as_recipe
    from hindcast.pipeline.storage.location import location
    from hindcast.policies.registry import behaviours

    loaded = as_recipe(recipe, overrides)
    made = add(loaded, behaviours(loaded), location(out), to=to, workers=workers)
    return open_dataset(made.folder)


def verify(
    dataset: "Dataset | Place",
    *,
    workers: int = 2,
    quick: bool = False,
    trace: Place | None = None,
    parents: "Sequence[Dataset | Place]" = (),
) -> "VerifyResult":
    """Check every claim of a dataset by recomputing it, down to each simulated decision.

    Args:
        dataset: The dataset, or its folder.
        workers: Number of threads. The result does not depend on it.
        quick: Whether to replay the decisions without drawing them again, and without comparing the
            workload with its source.
        trace: The raw trace that the workload was read from. None looks below $HINDCAST_TRACES.
        parents: The datasets that this one was made of by `filter`, `merge` or `split`, in order;
            its episodes are selected again and compared.

    Returns:
        The checks that passed: `checks` holds pairs of a name and a description. The last one,
        "not compared", names what could not be checked.

    Raises:
        VerificationFailed: A claim does not hold. The error names the first such claim.
        DatasetError: The folder holds no dataset, or `trace` is not its trace.
    """
    from hindcast.pipeline.dataset.verification.verify import verify as check
    from hindcast.pipeline.selection.selecting import check_parents
    from hindcast.pipeline.storage.location import location
    from hindcast.policies.registry import recorded_behaviours

    folder, raw = _folder(dataset), None if trace is None else location(trace)
    known = recorded_behaviours(folder)
    again = partial(check_parents, places=parents) if parents else None
    return check(folder, known, workers=workers, quick=quick, trace=raw, parents=again)


def train(
    dataset: "Dataset | Place",
    agent: str,
    *,
    out: Place,
    steps: int = 2000,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    gate: Literal["simulator", "folds", "lookahead", "log"] = "simulator",
) -> Path:
    """Train an offline agent on the train split of a dataset and write its checkpoint.

    Args:
        dataset: The dataset, or its folder.
        agent: Name of an agent; `hindcast train --help` lists all names. For an agent of your own,
            "path/to/file.py:NAME" or "module:NAME" of an `Agent`.
        out: Folder of the checkpoint. Its subfolder `best` holds the checkpoint with the best
            validation score. An interrupted training is resumed; a finished one is not repeated.
        steps: Number of gradient steps.
        seed: Seed of every random draw of the training.
        settings: Settings of the agent to replace, by dotted name: `{"network.hidden": [64]}`.
        device: "cpu", "cuda", or "auto", which uses a GPU if there is one.
        gate: "simulator" lets the agent and the best rule of the log play the validation windows;
            "folds" trains the agent four more times, each without a quarter of these and the train
            windows, and lets it play them, which shows smaller advantages on a trace with few
            windows; "lookahead" also compares what is delivered with a rule that looks ahead; "log"
            goes by the log alone and errs more often. `delivered` holds the agent or the rule.

    Returns:
        The folder of the checkpoint, which `evaluate` and `load_policy` take as a policy.

    Raises:
        InputError: The agent, a setting, the dataset or the device cannot be used, or PyTorch is
            not installed.
    """
    from hindcast.pipeline.storage.extras import require
    from hindcast.pipeline.storage.location import location

    require("training", "torch")
    from hindcast.policies.offline.training import train as fit
    from hindcast.policies.own_agents import agent_name
    from hindcast.policies.training.job import Options

    options, folders = Options(steps, seed, device, gate), (_folder(dataset), location(out))
    return fit(folders[0], agent_name(agent), folders[1], options, settings=settings)


def evaluate(
    recipe: "Recipe | Place",
    policies: "Sequence[Policy | Place]" = (),
    *,
    out: Place,
    split: str = "test",
    overrides: Sequence[str] = (),
    workers: int = 1,
) -> "EvaluateResult":
    """Score policies on the same windows of a recipe.

    Args:
        recipe: The recipe, see `load_recipe`.
        policies: Names of rules, folders of checkpoints, "behaviour" for the recipe's own
            behaviours, "path/to/file.py:NAME" or "module:NAME" for a function of your own, or
            objects with `name` and `scores` (see `Policy`), such as `load_policy` returns. If
            empty, the policies that the recipe names and the references of its scenario are
            scored.
        out: Folder for scores.parquet and evaluation.json, from which `hindcast report` makes a
            page.
        split: "train", "validation", "test" or "all".
        overrides: Values of the recipe to replace, each written `section.key=value`.
        workers: Number of threads that run episodes. It does not change the scores.

    Returns:
        The folder, the number of scores, and `means`: the mean headline outcome of every policy,
        in the outcome's unit.

    Raises:
        InputError: A policy, the split or the recipe does not exist, or a policy does not fit the
            recipe.
    """
    from hindcast.pipeline.evaluation.evaluate import evaluate as score
    from hindcast.pipeline.recipes.loading import as_recipe
    from hindcast.pipeline.storage.location import location
    from hindcast.policies.entrants import entrant_of, entrants, evaluated_policies, told_apart

    loaded, found = as_recipe(recipe, overrides), []
    for policy in policies or evaluated_policies(loaded):
        if isinstance(policy, str) or not hasattr(policy, "scores"):
            found += entrants(loaded, [str(policy)])
        else:
            found.append(entrant_of(policy))
    return score(loaded, told_apart(found), split=split, out=location(out), workers=workers)


def export(
    dataset: "Dataset | Place",
    to: str,
    out: Place,
    *,
    candidates: int | None = None,
    split: str | None = None,
) -> "ExportResult":
    """Write a dataset in the format of another tool.

    Args:
        dataset: The dataset, or its folder.
        to: Name of the format; `hindcast export --help` lists all names.
        out: The folder to create, or the file to create if the format is a single file.
        candidates: K, for a format that pads every decision to K candidates. By default K is the
            size of the largest decision, so that no candidate is cut.
        split: "train", "validation", "test" or "all". By default "train" for minari, d3rlpy and
            d4rl, whose readers take everything, and "all" for the other formats.

    Returns:
        The number of files and of bytes written.

    Raises:
        InputError: The format does not exist or cannot hold the dataset, or `out` exists already.
    """
    from hindcast.pipeline.exports import export as write

    return write(_folder(dataset), to, out, candidates=candidates, split=split)


def load_policy(folder: Place) -> "LearnedPolicy":
    """Return the policy of a checkpoint folder. Nothing in the folder is unpickled.

    Args:
        folder: Folder that `train` wrote, or its subfolder `best`.

    Returns:
        The policy, ready to score observations.

    Raises:
        DatasetError: The folder holds no checkpoint, or a damaged one.
    """
    from hindcast.pipeline.storage.location import location
    from hindcast.policies.networks.checkpoint import load_policy as load

    return load(location(folder))


def load_decider(
    policy: "Policy | Place",
    *,
    scenario: str = "queue",
    recipe: "Recipe | Place | None" = None,
    guard: Mapping[str, Any] | None = None,
    rows: int = 3,
    dataset: "Dataset | Place | None" = None,
    epsilon: float = 0.0,
    seed: int = 0,
    log: Place | None = None,
) -> "Decider | LogDecider":
    """Return a policy that decides for states of a real machine, or in the schema of a log.

    `decide(state)` of the result takes the state of the machine at a moment, which
    docs/how-to/decide.md describes, and returns the jobs to start, with the reasons. That of a
    policy of a log of decisions takes a record with the names of the log, and returns the choice,
    its propensity and the reasons.

    Args:
        policy: Name of a rule, folder of a checkpoint, or object with `name` and `scores`, such as
            `load_policy` returns. Of a log: folder of a checkpoint that was trained on it.
        scenario: The scenario of the states. Only "queue" has states of a real machine.
        recipe: Recipe whose settings the policy acts under. None stands for the scenario's
            defaults.
        guard: Limits beyond which the policy does not decide: `longest_wait` (h), `range`,
            `margin`, `probability`, and the `rule` that decides instead. None for no limits.
        rows: Number of candidates whose features are returned with each decision; of a log, most
            features that are returned as reasons.
        dataset: Of a log: its dataset, for a rule such as "lowest:price". Checkpoints know theirs.
        epsilon: Of a log: share of the decisions that is drawn uniformly. With 0 every choice is
            certain, and a log of certain choices answers nothing about other policies.
        seed: Of a log: seed of the draws, with the id of each decision.
        log: Of a log: file to which the decisions are appended, for `ingest("decisions", ...)`.

    Returns:
        The decider, with the method `decide`.

    Raises:
        InputError: The policy, scenario, recipe or a limit cannot be used.
    """
    from hindcast.pipeline.errors import InputError, did_you_mean
    from hindcast.pipeline.recipes.loading import as_recipe
    from hindcast.policies.deciding import Guard
    from hindcast.policies.deciding import load_decider as load
    from hindcast.policies.deciding_logs import decides_for_log, load_log_decider

    if dataset is not None or (isinstance(policy, str | Path) and decides_for_log(policy)):
        from hindcast.pipeline.storage.location import location

        return load_log_decider(
            policy, None if dataset is None else _folder(dataset),  # type: ignore[arg-type]
            epsilon=epsilon, seed=seed, reasons=rows, log=None if log is None else location(log),
        )  # fmt: skip
    given, known = dict(guard or {}), Guard.__dataclass_fields__
    for name in given:
        if name not in known:
            raise InputError(f"guard: unknown key {name!r}; {did_you_mean(name, known)}")
    config = None
    if recipe is not None:
        loaded = as_recipe(recipe, ())
        if loaded.scenario != scenario:
            raise InputError(f"{loaded.id}: its scenario is {loaded.scenario}, expected {scenario}")
        config = loaded.config
    return load(policy, scenario, config, Guard(**given), rows)


def make_env(
    recipe: "Recipe | Place",
    *,
    overrides: Sequence[str] = (),
    split: str = "train",
    candidates: int | None = None,
    strict: bool = False,
    render_mode: str | None = None,
) -> "SchedulingEnv":
    """Return a gymnasium.Env that plays the windows of a recipe.

    Candidates are padded to K rows; the mask of feasible rows is in the observation and in `info`.
    Every reset draws a window with the generator that `seed` began, or plays the window of
    `options={"window": w}`. `gymnasium.make` returns the same environment, see `register_envs`.

    Args:
        recipe: The recipe, see `load_recipe`.
        overrides: Values of the recipe to replace, each written `section.key=value`.
        split: The split whose windows are episodes, or "all" for every window.
        candidates: K. By default the largest number of candidates in the first windows, at most
            128.
        strict: Whether an action that the mask forbids raises InfeasibleChoice. If False, the
            action is ignored.
        render_mode: "rgb_array" for pictures, "ansi" for text, or None.

    Returns:
        The environment, see `hindcast.pipeline.gymnasium_env`.

    Raises:
        InputError: The recipe, the split or the render mode does not exist, or Gymnasium is not
            installed.
    """
    from hindcast.pipeline.storage.extras import require

    require("make_env", "gymnasium")
    from hindcast.pipeline.gymnasium_env.single import SchedulingEnv

    return SchedulingEnv(
        recipe, overrides=overrides, split=split, candidates=candidates, strict=strict,
        render_mode=render_mode,
    )  # fmt: skip


def register_envs() -> None:
    """Register the environments with Gymnasium: `hindcast/Slots-v0` and one id per scenario.

    `import hindcast` does this by itself if Gymnasium was imported before it. Call this function if
    Gymnasium is imported later. `hindcast/Recipe-v0` takes a recipe of any scenario.

    Raises:
        ImportError: Gymnasium cannot be imported.
    """
    from hindcast.pipeline.gymnasium_env.registration import register_envs as register

    register()


def register_agent(agent: "Agent | OnlineAgent") -> None:
    """Add an agent, so that its name can be used wherever an agent is named.

    Args:
        agent: An Agent, which learns from a dataset, or an OnlineAgent, which learns in the
            simulator. Its `module` is the dotted name of the module that holds its Config and
            learner; the module is imported when the agent is used.

    Raises:
        InputError: The name is taken.
    """
    from hindcast.policies.offline import AGENTS, Agent
    from hindcast.policies.online import ONLINE_AGENTS

    if isinstance(agent, Agent):
        AGENTS.register(agent.name, agent)
    else:
        ONLINE_AGENTS.register(agent.name, agent)


def register_trace_format(form: "TraceFormat") -> None:
    """Add a format of raw traces, for recipes and for `hindcast ingest`.

    Args:
        form: The format with its reader. `hindcast.testing.check_trace_format` tests it.

    Raises:
        InputError: The name is taken.
    """
    from hindcast.pipeline.traces import FORMATS

    FORMATS.register(form.name, form)


def register_export(form: "Export") -> None:
    """Add an export format, for `export` and for `hindcast export`.

    Args:
        form: The format. Its `module` is the dotted name of a module with the function
            `export(dataset, out, candidates, tell)`; the module is imported when the format is
            used.

    Raises:
        InputError: The name is taken.
    """
    from hindcast.pipeline.exports import EXPORTS

    EXPORTS.register(form.name, form)


def _folder(dataset: "Dataset | Place") -> Path:
    """Return the folder of a dataset, or the folder that was given."""
    from hindcast.pipeline.storage.location import location

    return location(getattr(dataset, "folder", dataset))


if "gymnasium" in sys.modules:  # Gymnasium's users expect ids after the import; it costs nothing
    register_envs()
