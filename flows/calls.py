"""Commands as functions: those names of `import hindcast` whose work lies in flows/.

Each makes the request of its command, checks it as the command line does, and runs it in this
process, without Prefect. Nothing heavy is imported before a function is called.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from hindcast.pipeline.errors import InputError

if TYPE_CHECKING:  # for editors and mypy
    from hindcast.pipeline.dataset import Dataset
    from hindcast.pipeline.dataset.building.results import BuildResult
    from hindcast.pipeline.decisions.answers import Answers
    from hindcast.pipeline.recipes.recipe import Recipe
    from hindcast.pipeline.traces.ingest import IngestResult
    from hindcast.policies.ope.behaviour.model import BehaviourModel
    from hindcast.policies.ope.ope import OPEResult

Place: TypeAlias = Path | str  # of a file or folder
Settings: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class WhatIfResult:
    """The page of `whatif`, and its conclusion.

    Attributes:
        page: The HTML page. Its numbers are beside it, in whatif.json, whatif.csv and other tables.
        lines: Grade, badge and conclusion, as the command line prints them.
        badge: What may be said about a change of the scheduler: "Gain", "No clear difference", ...
        grade: Whether the log can be that of one machine with an orderly scheduler: A, B, C or D;
            "-" where nearly nobody waits; "" if the log has no starts.
        warnings: Limits of the conclusions from this log.
    """

    page: Path
    lines: tuple[str, ...]
    badge: str
    grade: str
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class InitResult:
    """The mapping or recipe that `init` proposes.

    Attributes:
        file: The file that was written.
        unsure: Questions to settle before the file is used.
    """

    file: Path
    unsure: tuple[str, ...]


def whatif(
    log: Place,
    out: Place | None = None,
    *,
    policies: Sequence[Place] = (),
    without_rules: Sequence[str] = (),
    only_rules: Sequence[str] = (),
    mine: Place | None = None,
    changes: Sequence[str] = (),
    shake: int | None = None,
    pools: Mapping[str, int] | None = None,
    capacity: Sequence[str] = (),
    where: Sequence[str] = (),
    without: Sequence[str] = (),
    train: bool = False,
    iterations: int | None = None,
    trace_format: str | None = None,
    settings: Settings | None = None,
    workers: int = 1,
) -> WhatIfResult:
    """Play a log with its own scheduler and with other policies, and write one page about it.

    An interrupted call continues when it is repeated.

    Args:
        log: Log of a batch system, mapping of a table (.toml), or workload.
        out: Folder of the page, its numbers and evaluations. None is whatif-NAME of the log, in the
            working folder.
        policies: Rules and folders of checkpoints beside the usual rules.
        without_rules: Usual rules to leave out.
        only_rules: The usual rules to keep; empty for all.
        mine: Your scheduler, played as policy `mine`: a slurm.conf, lines of PBS, or
            "FILE.py:function".
        changes: Changed worlds, such as "processors=+10%", "limit=24h" or "depth=50"; "A,B" for
            both in one.
        shake: Draws in which submissions are moved by up to a minute. None is 20, fewer for a long
            log.
        pools: Processors by partition; "A+B" for partitions that share theirs.
        capacity: What the machine has beside processors, such as "gpus=20", "gpus:a100=8" or
            "memory=160GiB", and "batch:gpus=8" of a pool.
        where: "partition=NAME" selects the jobs that are played, "user=", "queue=" or "account="
            those that are counted, "FROM..TO" the part of the log that is the run.
        without: Times in which the machine was closed, each "FROM..TO", for the grade.
        train: Whether to train agents on the first part of the log, which takes minutes.
        iterations: Generations of each training; only with `train`.
        trace_format: Format of the log. None recognises it by its first lines.
        settings: Settings of the format's reader, such as `{"processors": 1024}`.
        workers: Number of threads that run episodes. It does not change the result.

    Returns:
        The page and its conclusion.

    Raises:
        InputError: The log, its format, a setting, a policy, a change or a condition cannot be
            used, or `out` holds the page of another log.

    Example:
        >>> found = hindcast.whatif("jobs.swf", policies=["f2_easy"], changes=["processors=+10%"])
        >>> print(found.page, found.badge, *found.lines)
    """
    from hindcast.flows.commands.logs import whatif as command

    sizes = ",".join(f"{name}={size}" for name, size in (pools or {}).items())
    line = ["hindcast", "whatif", str(log)]
    line += ["--out", str(out)] if out else []
    line += _words("--policy", policies)
    line += _words("--without-rule", without_rules)
    line += _words("--only-rule", only_rules)
    line += ["--mine", str(mine)] if mine else []
    line += [word for change in changes for word in ("--change", change)]
    line += ["--shake", str(shake)] if shake is not None else []
    line += ["--pools", sizes] if sizes else []
    line += [word for each in capacity for word in ("--capacity", each)]
    line += [word for each in where for word in ("--where", each)]
    line += [word for each in without for word in ("--without", each)]
    line += ["--train"] if train else []
    line += ["--iterations", str(iterations)] if iterations else []
    line += ["--format", trace_format] if trace_format else []
    line += [word for override in _overrides(settings) for word in ("--set", override)]
    request = command.Request(
        str(log), str(out or ""), tuple(map(str, policies)), tuple(without_rules),
        tuple(only_rules), str(mine) if mine else None, tuple(changes), shake, sizes or None,
        tuple(capacity), tuple(where), tuple(without), train=train, iterations=iterations,
        format=trace_format, settings=_overrides(settings), workers=workers,
        command=shlex.join(line),
    )  # fmt: skip
    result = _run(command, request)
    return WhatIfResult(
        Path(result["page"]), tuple(result["lines"]), result["badge"], result["grade"],
        tuple(result["warnings"]),
    )  # fmt: skip


@overload
def ingest(
    trace_format: Literal["decisions"], path: Any, out: Place, *, settings: None = None,
    mapping: Mapping[str, Any] | None = None,
) -> "BuildResult": ...  # fmt: skip


@overload
def ingest(
    trace_format: str, path: Place, out: Place, *, settings: Settings | None = None,
    anonymise: Place | None = None, keep: Sequence[str] = (), mapping: None = None,
) -> "IngestResult": ...  # fmt: skip


def ingest(
    trace_format: str,
    path: Any,
    out: Place,
    *,
    settings: Settings | None = None,
    anonymise: Place | None = None,
    keep: Sequence[str] = (),
    mapping: Mapping[str, Any] | None = None,
) -> "IngestResult | BuildResult":
    """Convert a raw trace to a workload, or a log of decisions to a dataset.

    Args:
        trace_format: Name of a format of jobs, or "decisions"; `hindcast traces` lists all names.
        path: File or folder of the raw trace. A log of decisions may also be a polars or pandas
            frame, a list of records, or the dictionary of Open Bandit Pipeline.
        out: Folder for the workload or the dataset.
        settings: Settings of the format's reader, such as `{"processors": 1024}`.
        anonymise: File of a key, made if there is none, with which names become pseudonyms.
        keep: Columns of queues, partitions, QOS or clusters whose names stay.
        mapping: Meaning of the columns of a log of decisions that has no mapping file.

    Returns:
        The folder, the workload, whose provenance counts what was left out, and the number of rows
        in quarantine; of decisions the folder, the numbers and the caveats of the dataset.

    Raises:
        InputError: The format or a setting is unknown, the trace cannot be read, or `out` holds
            something else.

    Example:
        >>> made = hindcast.ingest("swf", "jobs.swf", "workload")
        >>> print(made.workload.tasks.height, dict(made.workload.provenance.left_out))
    """
    from hindcast.flows.commands import ingest as command
    from hindcast.pipeline.storage.location import location
    from hindcast.pipeline.traces.ingest import ingest as read

    key = None if anonymise is None else str(anonymise)
    if trace_format == "decisions":
        from hindcast.pipeline.decisions.conversion import convert
        from hindcast.pipeline.decisions.reading import read_log

        if settings:
            raise command.no_settings(trace_format, _overrides(settings), str(path))
        if key is not None or keep:
            raise InputError("anonymise and keep are for logs of jobs")
        name = Path(path).stem if isinstance(path, str | Path) else "log"
        return convert(read_log(path, mapping), location(out), name)
    if mapping is not None:
        raise InputError(f"the format {trace_format!r} takes no mapping, which is for decisions")
    request = command.Request(
        trace_format, str(path), str(out), _overrides(settings), key, tuple(keep)
    )
    command.check(request)
    return read(
        trace_format, location(path), location(out), settings=command.settings_of(request),
        anonymise=None if key is None else location(key), keep=keep,
    )  # fmt: skip


def init(
    source: Place, out: Place | None = None, *, scenario: str = "", time_zone: str = ""
) -> InitResult:
    """Look at a table of jobs or of decisions, or at a workload, and propose a mapping or a recipe.

    Args:
        source: Table of jobs or of decisions (CSV or Parquet), for a mapping; or folder of a
            workload, for a recipe.
        out: File for the mapping or recipe, which is never overwritten. None is a file beside
            `source`, ending in .toml.
        scenario: Scenario of the recipe; empty for the first that suits.
        time_zone: Time zone of the log, such as "Europe/Berlin"; empty for that of the log, or UTC.

    Returns:
        The file, and what in it is unsure.

    Raises:
        InputError: There is no such table or workload, no column of it is known, or the file
            exists.

    Example:
        >>> proposed = hindcast.init("workload", "recipe.toml", scenario="queue")
        >>> recipe = hindcast.load_recipe(proposed.file)
    """
    from hindcast.flows.commands import init as command

    target = "" if out is None else str(out)
    result = _run(command, command.Request(str(source), target, scenario, time_zone))
    if "recipe" in result:
        return InitResult(Path(result["recipe"]), tuple(result["warnings"]))
    return InitResult(Path(result["mapping"]), tuple(result["unsure"]))


def train_online(
    recipe: "Recipe | Place",
    agent: str | None = None,
    *,
    out: Place,
    overrides: Sequence[str] = (),
    iterations: int | None = None,
    seed: int = 0,
    start: Place | None = None,
    device: str = "auto",
    gate: Literal["simulator", "folds", "lookahead"] = "simulator",
    workers: int = 1,
) -> Path:
    """Train an agent that plays the train windows of a recipe, and write its checkpoint.

    Args:
        recipe: The recipe, see `load_recipe`.
        agent: Name of an online agent; `hindcast train-online --help` lists all names. For an agent
            of your own, "path/to/file.py:NAME" or "module:NAME" of an `OnlineAgent`. None is the
            recipe's.
        out: Folder of the checkpoint. Its subfolder `best` holds the checkpoint with the best
            validation score, `delivered` that or a rule which it does not beat. An interrupted
            training is resumed; a finished one is not repeated.
        overrides: Values of the recipe to replace, each written `section.key=value`; the agent's
            settings are in `online.settings`.
        iterations: Batches of trajectories. None is the recipe's number.
        seed: Seed of every random draw of the training.
        start: Folder of a checkpoint to start from.
        device: "cpu", "cuda", or "auto", which uses a GPU if there is one.
        gate: "simulator", "folds" or "lookahead", see `train`.
        workers: Number of threads that play. It does not change the weights.

    Returns:
        The folder of the checkpoint, which `evaluate` and `load_policy` take as a policy.

    Raises:
        InputError: The recipe, the agent, a setting, the checkpoint or the device cannot be used.

    Example:
        >>> agent = hindcast.train_online(
        ...     "binpack-synthetic-v1", "evolution", out="agent", iterations=1, overrides=SMALL
        ... )
        >>> policy = hindcast.load_policy(agent)
    """
    from hindcast.pipeline.recipes.loading import as_recipe
    from hindcast.pipeline.storage.location import location
    from hindcast.policies.online.training import train_online as fit
    from hindcast.policies.own_agents import online_agent_name
    from hindcast.policies.training.job import Options

    return fit(
        as_recipe(recipe, overrides), location(out), Options(iterations, seed, device, gate),
        agent=agent and online_agent_name(agent),
        start=() if start is None else (location(start),), workers=workers,
    )  # fmt: skip


def ope(
    dataset: "Dataset | Place",
    policies: Sequence[Any] = (),
    *,
    out: Place | None = None,
    split: str | None = None,
    accept: Sequence[str] = (),
    estimate_propensities: bool = False,
    epsilon: float | None = None,
    temperature: float = 0.0,
    estimators: Sequence[str] = (),
    propensities: Literal["mixture", "logged", "estimated"] = "mixture",
    limit: int = 100_000,
    fqe_steps: int = 1500,
    truth_seeds: int = 5,
    seed: int = 0,
) -> "OPEResult | Answers":
    """Estimate the returns of policies from a dataset, and compare with the simulator.

    A log of decisions (`ingest("decisions", ...)`) has no simulator. Its answer is an object with
    `estimates`, `support`, `cautions`, `sentences` and `answerable`; that it cannot answer is a
    result, and no error.

    Args:
        dataset: The dataset, or its folder.
        policies: Names of rules or folders of checkpoints. If empty, those that the recipe names.
            Of a log also functions of (context, candidates, feasible).
        out: Folder for estimates.parquet and ope.json; None writes nothing. With a folder, an
            interrupted call continues when it is repeated.
        split: Split whose episodes are weighted; by default "validation", of a log "all".
        accept: Of a log: contradictions that are accepted, such as "propensities_contradicted".
        estimate_propensities: Of a log: whether propensities that it lacks are estimated.
        epsilon: Exploration of the evaluated policies. None is that of the log's rules.
        temperature: Softmax temperature of their scores; 0 takes the best score.
        estimators: Names of estimators; `hindcast list --estimators` lists all. Empty for all.
        propensities: "mixture" of a window's behaviours, "logged" of the one that decided, or
            "estimated" by `behaviour`.
        limit: Number of decisions to read of a split, in whole windows.
        fqe_steps: Gradient steps of fitted Q evaluation for each policy.
        truth_seeds: Episodes per window of the policies in the simulator; 0 simulates nothing.
        seed: Seed of all random draws.

    Returns:
        `rows`, a polars table with a row for every policy and estimator, and `description`; of a
        log its answers.

    Raises:
        InputError: The dataset, a policy or a setting cannot be used.

    Example:
        >>> found = hindcast.ope("dataset", ["tetris"], estimators=["snis"], truth_seeds=1)
        >>> print(found.rows.select("policy", "estimator", "value", "low", "high", "truth"))
    """
    from hindcast.pipeline.storage.location import location
    from hindcast.policies.ope import logs
    from hindcast.policies.ope.ope import OPESettings, evaluate_offline

    folder = location(getattr(dataset, "folder", dataset))
    if logs.is_log(folder):
        return logs.ask(
            folder, policies, split=split, accept=accept,
            estimate_propensities=estimate_propensities, seed=seed,
            out=None if out is None else location(out),
        )  # fmt: skip
    if accept or estimate_propensities:
        raise InputError("accept and estimate_propensities are for logs of decisions")
    settings = OPESettings(
        split=split or "validation", epsilon=epsilon, temperature=temperature,
        propensities=propensities,
        estimators=tuple(estimators) or OPESettings.estimators, limit=limit, fqe_steps=fqe_steps,
        truth_seeds=truth_seeds, seed=seed,
    )  # fmt: skip
    return evaluate_offline(
        folder, tuple(map(str, policies)), settings,
        out=None if out is None else location(out),
    )  # fmt: skip


def report(folders: Place | Sequence[Place], out: Place, *, metrics: Sequence[str] = ()) -> Path:
    """Write one HTML page about evaluations.

    Args:
        folders: Folders of evaluations, runs, estimates or studies; a single one may be given
            alone.
        out: Folder of the page and of its tables, or the path of the report.html in it.
        metrics: Outcomes in results.csv beside the headline; the page has all of them.

    Returns:
        The path of report.html.

    Raises:
        InputError: A folder is no evaluation, or `out` names a page that is not report.html.

    Example:
        >>> scored = hindcast.evaluate(
        ...     "binpack-synthetic-v1", ["tetris", "random"], out="evaluation", overrides=SMALL
        ... )
        >>> page = hindcast.report("evaluation", "report")
    """
    from hindcast.flows.commands import report as command

    sources = [folders] if isinstance(folders, Path | str) else folders
    request = command.request_of(list(map(str, sources)), str(out), tuple(metrics))
    return Path(_run(command, request)["report"])


def behaviour(
    source: Place,
    *,
    out: Place | None = None,
    trace_format: str | None = None,
    settings: Settings | None = None,
    seed: int = 0,
) -> "BehaviourModel":
    """Model which waiting job a log's scheduler started, among those that fitted.

    Beside a dataset of recorded decisions, the estimated propensities are written, for
    `ope(propensities="estimated")`.

    Args:
        source: Log of a batch system, mapping of a table (.toml), workload, or
            dataset of recorded decisions.
        out: File for the model (JSON), only for a log. None writes none.
        trace_format: Format of the log. None recognises it by its first lines.
        settings: Settings of the format's reader, such as `{"processors": 1024}`.
        seed: Seed of the network that the model is compared with.

    Returns:
        The fitted conditional logit, and its test beside a network and rules.

    Raises:
        InputError: The log or dataset cannot be used, or `out` exists.

    Example:
        >>> model = hindcast.behaviour("jobs.swf")
        >>> print(model.score("logit").top_1, model.tested)
    """
    from hindcast.flows.commands.logs import behaviour as command

    target = None if out is None else str(out)
    request = command.Request(str(source), target, trace_format, _overrides(settings), seed)
    command.check(request)
    return command.fitted(request)[0]


def _run(command: Any, request: Any) -> dict[str, Any]:
    """Check the request of a command's module and run it."""
    command.check(request)
    result: dict[str, Any] = command.run(request)
    return result


def _words(flag: str, values: Sequence[Place]) -> list[str]:
    """Return an option that takes several values, as words of a command line."""
    return [flag, *map(str, values)] if values else []


def _overrides(settings: Settings | None) -> tuple[str, ...]:
    """Return settings as `key=value` with TOML values, as `--set` takes them."""
    items = (settings or {}).items()
    return tuple(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in items)
