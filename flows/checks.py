"""What can be refused before anything is started: one check per command, each an InputError.

The steps refuse the same things; here it happens before the seconds that Prefect takes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import TraceError


def ingest(trace_format: str, path: Path, **_others: Any) -> None:
    """Raise for an unknown format, or a trace that is not there."""
    from pipeline.errors import unknown_name
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
    from pipeline.recipe import load_recipe
    from policies.registry import behaviours

    loaded = load_recipe(recipe, overrides)
    behaviours(loaded)
    if append and out is not None:
        from pipeline.manifest import read_manifest
        from pipeline.segments import check_fits

        check_fits(read_manifest(out).recipes, loaded, str(out))


def train(
    dataset: Path,
    agent: str,
    device: str = "auto",
    tensorboard: str | None = None,
    **_others: Any,
) -> None:
    """Raise for an unknown agent or device, or a folder that is no dataset."""
    from pipeline.manifest import read_manifest
    from policies.offline import agent as find_agent

    find_agent(agent)
    read_manifest(dataset)
    if device != "auto" or tensorboard is not None:  # else torch need not be loaded here
        from policies.offline.board import check_board
        from policies.offline.devices import find_device

        find_device(device)
        check_board(tensorboard)


def sweep(
    dataset: Path, sweep: dict[str, Any], where: str, device: str = "auto", **_others: Any
) -> None:
    """Raise for a sweep that is not valid, an unknown device, or a folder that is no dataset."""
    from pipeline.manifest import read_manifest
    from policies.offline.devices import find_device
    from policies.offline.sweep import plan

    plan(sweep, where)
    read_manifest(dataset)
    find_device(device)


def evaluate(
    recipe: str, overrides: Sequence[str], policies: Sequence[str], split: str, **_others: Any
) -> None:
    """Raise for a recipe that is not valid, or policies, checkpoints or a split it has not."""
    from pipeline.recipe import load_recipe
    from policies.candidates import candidates

    loaded = load_recipe(recipe, overrides)
    loaded.windows(split)
    candidates(loaded, policies or loaded.evaluate.policies)


def report(evaluations: Sequence[Path], **_others: Any) -> None:
    """Raise for folders that are no evaluations."""
    from pipeline.summary.evaluations import read_evaluation

    for folder in evaluations:
        read_evaluation(folder)


def run(recipe: str, overrides: Sequence[str], **_others: Any) -> None:
    """Raise for a recipe that is not valid, or policies or agents that do not exist."""
    from pipeline.recipe import load_recipe
    from policies.offline import agent as find_agent

    build(recipe, overrides)
    evaluate(recipe, overrides, (), "test")
    for agent in load_recipe(recipe, overrides).train.agents:
        find_agent(agent)
