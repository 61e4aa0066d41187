"""What each subcommand does: check, run, and say what came out, as JSON and as text."""

import argparse
import importlib
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.errors import InputError

PAGE: Final = "report.html"
_STEPS: Final = 2000
_OF_MANY_STEPS: Final = {
    "run": ("flows.stages", "run_stages"),
    "sweep": ("flows.sweep_runs", "run_sweep"),
    "study": ("flows.study_runs", "run_study"),
    "train_online": ("flows.online_runs", "train_seeds"),
}
_OF_ONE_TRAINING: Final = ("seed", "checkpoint_every", "tensorboard")


@dataclass(frozen=True)
class Outcome:
    """What a command prints: JSON objects, one a line, or the same for people; its exit code."""

    results: list[dict[str, Any]]
    lines: list[str] = field(default_factory=list)
    code: int = 0


def execute(name: str, direct: bool, **parameters: Any) -> dict[str, Any]:
    """Check the parameters of a flow and run it, or with `direct` its steps without Prefect."""
    from flows import checks

    getattr(checks, name)(**parameters)
    if not direct:
        from flows.engine import run_flow

        return run_flow(name, **parameters)
    if name in _OF_MANY_STEPS:
        module, function = _OF_MANY_STEPS[name]
        whole: Callable[..., dict[str, Any]] = getattr(importlib.import_module(module), function)
        return whole(**parameters)
    step: Callable[..., dict[str, Any]] = getattr(importlib.import_module("flows.steps"), name)
    return step(**parameters)


def traces(_arguments: argparse.Namespace) -> Outcome:
    """Formats that can be ingested."""
    from pipeline.traces import FORMATS

    results, lines = [], []
    for form in FORMATS.values():
        facts = {
            "what": form.description,
            "path": form.path,
            "source": form.source,
            "terms": form.terms,
            "citation": form.citation,
        }
        results.append({"format": form.name, **facts})
        lines.append(form.name)
        for title, text in facts.items():
            lines += textwrap.wrap(
                text, 96, initial_indent=f"  {title:<10}", subsequent_indent=" " * 12
            )
    return Outcome(results, lines)


def ingest(arguments: argparse.Namespace) -> Outcome:
    """A raw trace becomes a workload."""
    result = execute(
        "ingest",
        arguments.direct,
        trace_format=arguments.trace_format,
        path=arguments.path,
        out=arguments.out,
    )
    if "dataset" in result:
        return Outcome([result], [_built(result)])
    lines = [f"{result['workload']}: {result['tasks']:,} tasks"]
    lines += [f"  {name}: {count:,}" for name, count in result["counts"].items()]
    lines += [f"  left out, {name}: {count:,}" for name, count in result["left_out"].items()]
    if result["quarantined"]:
        lines.append(f"  quarantined with file, line and reason: {result['quarantined']:,} rows")
    return Outcome([result], lines)


def build(arguments: argparse.Namespace) -> Outcome:
    """A recipe becomes a dataset."""
    result = execute(
        "build",
        arguments.direct,
        **_recipe(arguments),
        workers=arguments.workers,
        append=arguments.append,
    )
    return Outcome([result], [_built(result)])


def verify(arguments: argparse.Namespace) -> Outcome:
    """Every claim of a dataset is recomputed; without Prefect, there is nothing to record."""
    from flows import steps

    result = steps.verify(arguments.dataset)
    return Outcome([result], _verified(result))


def train(arguments: argparse.Namespace) -> Outcome:
    """A dataset becomes a checkpoint, or many."""
    if arguments.sweep is not None or arguments.seeds is not None:
        return _sweep(arguments)
    if arguments.agent is None:
        raise InputError("train: give --agent NAME, or --sweep FILE")
    result = execute(
        "train",
        arguments.direct,
        dataset=arguments.dataset,
        agent=arguments.agent,
        out=arguments.out,
        steps=arguments.steps or _STEPS,
        seed=arguments.seed or 0,
        settings=_settings(arguments.settings),
        device=arguments.device,
        checkpoint_every=arguments.checkpoint_every,
        tensorboard=arguments.tensorboard,
    )
    return Outcome([result], [_trained(result)])


def train_online(arguments: argparse.Namespace) -> Outcome:
    """A recipe becomes a checkpoint, by playing, or one for each of several seeds."""
    if arguments.seeds is not None and arguments.seed is not None:
        raise InputError("train-online: give --seed or --seeds")
    result = execute(
        "train_online",
        arguments.direct,
        **_recipe(arguments),
        agent=arguments.agent,
        iterations=arguments.iterations,
        seed=arguments.seed or 0,
        seeds=tuple(dict.fromkeys(arguments.seeds or ())),
        start=arguments.start,
        imitate=arguments.imitate,
        imitate_steps=arguments.imitate_steps,
        device=arguments.device,
        workers=arguments.workers,
        checkpoint_every=arguments.checkpoint_every,
    )
    runs = result["runs"] if arguments.seeds else [result]
    return Outcome(runs, [_trained(run) for run in runs])


def _sweep(arguments: argparse.Namespace) -> Outcome:
    """Several trainings: those of a sweep.toml, or one agent with several seeds."""
    from policies.offline.sweep import load_sweep

    given = {f"--{n.replace('_', '-')}": getattr(arguments, n) for n in _OF_ONE_TRAINING}
    if arguments.sweep is not None:
        told = ["--agent", "--steps", "--seeds", "--set"]
        given |= dict(zip(told, (arguments.agent, arguments.steps, arguments.seeds,
                                 arguments.settings or None), strict=True))  # fmt: skip
        table, where = load_sweep(arguments.sweep), str(arguments.sweep)
    else:
        if arguments.agent is None:
            raise InputError("train: --seeds needs --agent NAME")
        settings = {k: [v] for k, v in _settings(arguments.settings).items()}
        table = {"agents": [arguments.agent], "seeds": arguments.seeds,
                 "steps": arguments.steps or _STEPS, "settings": settings}  # fmt: skip
        where = "--seeds"
    for option, value in given.items():
        if value is not None:
            by = "--seeds" if arguments.sweep is None else "--sweep, which says it in its file"
            raise InputError(f"train: {option} is for a single training, not with {by}")
    result = execute(
        "sweep", arguments.direct, dataset=arguments.dataset, sweep=table, out=arguments.out,
        device=arguments.device, where=where,
    )  # fmt: skip
    return Outcome([result], [*result["lines"], result["sweep"]])


def evaluate(arguments: argparse.Namespace) -> Outcome:
    """Policies are scored."""
    result = execute(
        "evaluate",
        arguments.direct,
        **_recipe(arguments),
        policies=tuple(arguments.policies),
        split=arguments.split,
        workers=arguments.workers,
        command=arguments.line,
    )
    return Outcome([result], _evaluated(result))


def calibrate(arguments: argparse.Namespace) -> Outcome:
    """A scenario's calibration; without Prefect, there is nothing to record."""
    from flows import steps

    rows = steps.calibrate(arguments.scenario, arguments.episodes, arguments.seed)
    columns = list(rows[0])
    cells = [columns, *([_cell(row[c]) for c in columns] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in cells]
    return Outcome(rows, lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def export(arguments: argparse.Namespace) -> Outcome:
    """A dataset in another format; without Prefect, there is nothing to record."""
    from flows import steps

    result = steps.export(
        arguments.dataset, arguments.to, arguments.out, candidates=arguments.candidates
    )
    many = "1 file" if result["files"] == 1 else f"{result['files']} files"
    head = f"{result['export']}: {result['format']}, {many}, {result['bytes'] / 1e6:,.1f} MB"
    lines = [f"  {note}" for note in result["notes"]]
    return Outcome([result], [head, *lines, f"  not in it: {result['lost']}"])


def list_found(arguments: argparse.Namespace) -> Outcome:
    """What is below some folders, or with --recipes what can be built."""
    from pipeline.inspection import list as catalogue

    if arguments.recipes:
        found = catalogue.recipes()
        rows = [("recipe", "scenario", "level", "episodes", "description")]
        rows += [
            (r["name"], r["scenario"], r["level"] or "-", f"{r['episodes']:,}", r["description"])
            for r in found
        ]
        return Outcome(found, catalogue.aligned(rows, right=(3,)))
    entries = list(catalogue.find(arguments.folders))
    if not entries:
        looked = ", ".join(map(str, arguments.folders))
        return Outcome([], [f"nothing of Hindcast's below {looked}"])
    return Outcome([e.to_json() for e in entries], catalogue.listing(entries))


def show(arguments: argparse.Namespace) -> Outcome:
    """One folder in detail; without Prefect, there is nothing to record."""
    from pipeline.inspection.show import details

    told = details(arguments.folder)
    return Outcome([told.facts], told.lines)


def diff(arguments: argparse.Namespace) -> Outcome:
    """What differs between two datasets; exit code 1 where anything does."""
    from pipeline.inspection.diff import compare, report

    found = compare(arguments.a, arguments.b)
    same = {"a": str(arguments.a), "b": str(arguments.b), "same": not found}
    return Outcome([same, *(d.to_json() for d in found)], report(found), code=int(bool(found)))


def ope(arguments: argparse.Namespace) -> Outcome:
    """What policies would earn is estimated; without Prefect, its own folder keeps what is done."""
    from flows import steps
    from flows.estimates import text_of

    result = steps.ope(
        arguments.dataset,
        policies=tuple(arguments.policies),
        out=arguments.out,
        truth=not arguments.no_truth,
        command=arguments.line,
        split=arguments.split,
        epsilon=arguments.epsilon,
        temperature=arguments.temperature,
        estimators=arguments.estimators,
        propensities=arguments.propensities,
        limit=arguments.limit,
        fqe_steps=arguments.fqe_steps,
        seed=arguments.seed,
    )
    return Outcome([result["about"], *result["rows"]], text_of(result))


def report(arguments: argparse.Namespace) -> Outcome:
    """Evaluations become a page."""
    out = arguments.out
    if out.suffix == ".html" and out.name != PAGE:
        raise InputError(
            f"--out {out}: the page is always named {PAGE}, since summary files stand beside it; "
            f"try --out {out.with_suffix('') / PAGE}"
        )
    from flows.report_sources import estimates_of, sources_of

    estimates, folders = estimates_of(arguments.folders)
    sources = [sources_of(folder) for folder in folders]
    result = execute(
        "report",
        arguments.direct,
        evaluations=tuple(e for e, _, _ in sources),
        out=out.parent if out.name == PAGE else out,
        training=tuple(t for _, trained, _ in sources for t in trained),
        datasets=tuple(d for _, _, datasets in sources for d in datasets),
        estimates=estimates,
        studies=tuple(f for f in folders if (f / "study.json").exists()),
        metrics=tuple(arguments.metrics),
    )
    return Outcome([result], [result["report"]])


def run(arguments: argparse.Namespace) -> Outcome:
    """Everything, stage by stage."""
    result = execute(
        "run",
        arguments.direct,
        **_recipe(arguments),
        workers=arguments.workers,
        command=arguments.line,
    )
    stages: Mapping[str, dict[str, Any]] = result["stages"]
    lines = []
    for name, stage in stages.items():
        if name.startswith("train "):
            lines.append(_trained(stage))
    if "build" in stages:
        lines = [_built(stages["build"]), *_verified(stages["verify"]), *lines]
    lines += [*_evaluated(stages["evaluate"]), result["report"]]
    return Outcome([{"stage": name, **stage} for name, stage in stages.items()], lines)


def study(arguments: argparse.Namespace) -> Outcome:
    """The same agents on several logs."""
    from flows.study_arguments import study_parameters

    result = execute("study", arguments.direct, **_recipe(arguments), **study_parameters(arguments))
    return Outcome([result], [f"{result['study']}: {result['points']} points", result["page"]])


def _recipe(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "recipe": arguments.recipe,
        "out": arguments.out,
        "overrides": tuple(arguments.overrides),
    }


def _settings(pairs: list[str]) -> dict[str, Any]:
    """Settings of an agent from key=value, values as TOML, else as strings."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {pair!r}: expected key=value")
        try:
            settings[key.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            settings[key.strip()] = text
    return settings


def _built(result: Mapping[str, Any]) -> str:
    return (
        f"{result['dataset']}: {result['episodes']:,} episodes, {result['decisions']:,} decisions, "
        f"{result['bytes'] / 1e6:,.1f} MB, digest {result['digest'][:12]}"
    )


def _verified(result: Mapping[str, Any]) -> list[str]:
    checks = [f"  {c['check']}: {c['detail']}" for c in result["checks"]]
    return [f"{result['dataset']}: verified", *checks]


def _trained(result: Mapping[str, Any]) -> str:
    return f"{result['checkpoint']}: {result['agent']}, {result['steps']:,} steps"


def _evaluated(result: Mapping[str, Any]) -> list[str]:
    means: Mapping[str, float] = result["means"]
    width = max(map(len, means), default=0)
    scores = [f"  {name:<{width}}  {mean:12,.2f}" for name, mean in means.items()]
    return [f"{result['evaluation']}: means on {result['split']}", *scores]
