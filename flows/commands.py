"""What each subcommand does: check, run, and say what came out, as JSON and as text."""

import argparse
import importlib
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pipeline.errors import InputError

PAGE: Final = "report.html"


@dataclass(frozen=True)
class Outcome:
    """What a command prints: JSON objects, one a line, or the same for people."""

    results: list[dict[str, Any]]
    lines: list[str] = field(default_factory=list)


def execute(name: str, direct: bool, **parameters: Any) -> dict[str, Any]:
    """Check the parameters of a flow and run it, or with `direct` its steps without Prefect."""
    from flows import checks

    getattr(checks, name)(**parameters)
    if not direct:
        from flows.engine import run_flow

        return run_flow(name, **parameters)
    if name == "run":
        from flows.stages import run_stages

        return run_stages(**parameters)
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
    result = execute("build", arguments.direct, **_recipe(arguments), workers=arguments.workers)
    return Outcome([result], [_built(result)])


def verify(arguments: argparse.Namespace) -> Outcome:
    """Every claim of a dataset is recomputed; without Prefect, there is nothing to record."""
    from flows import steps

    result = steps.verify(arguments.dataset)
    return Outcome([result], _verified(result))


def train(arguments: argparse.Namespace) -> Outcome:
    """A dataset becomes a checkpoint."""
    result = execute(
        "train",
        arguments.direct,
        dataset=arguments.dataset,
        agent=arguments.agent,
        out=arguments.out,
        steps=arguments.steps,
        seed=arguments.seed,
        settings=_settings(arguments.settings),
    )
    return Outcome([result], [_trained(result)])


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


def report(arguments: argparse.Namespace) -> Outcome:
    """Evaluations become a page."""
    out = arguments.out
    if out.suffix == ".html" and out.name != PAGE:
        raise InputError(
            f"--out {out}: the page is always named {PAGE}, since summary files stand beside it; "
            f"try --out {out.with_suffix('') / PAGE}"
        )
    sources = [_sources(folder) for folder in arguments.folders]
    result = execute(
        "report",
        arguments.direct,
        evaluations=tuple(e for e, _, _ in sources),
        out=out.parent if out.name == PAGE else out,
        training=tuple(t for _, trained, _ in sources for t in trained),
        datasets=tuple(d for _, _, datasets in sources for d in datasets),
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
    lines = [_built(stages["build"]), *_verified(stages["verify"]), *lines]
    lines += [*_evaluated(stages["evaluate"]), result["report"]]
    return Outcome([{"stage": name, **stage} for name, stage in stages.items()], lines)


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


def _sources(folder: Path) -> tuple[Path, list[Path], list[Path]]:
    """The evaluation, checkpoints and datasets of a folder: of an evaluation, or of a whole run."""
    if (folder / "evaluation.json").exists() or not (folder / "run.json").exists():
        return folder, [], []
    trained = sorted(p.parent for p in folder.glob("agents/*/metrics.parquet"))
    return folder / "evaluation", trained, [folder / "dataset"]


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
