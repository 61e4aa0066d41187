"""What a task does: one function per step of the pipeline, each a call into pipeline/ or policies/.

Arguments are names, numbers and paths; results are small JSON values. The Prefect flows run these
as tasks, the command line with --direct calls them as they are. Libraries are imported where they
are used, so that a step loads no more than it needs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.progress import progress


def ingest(trace_format: str, path: Path, out: Path) -> dict[str, Any]:
    """Read a raw trace and write a workload, or recorded decisions and write a dataset."""
    from pipeline import ingest as ingestion
    from pipeline.history.dataset import ingest_history
    from pipeline.traces import FORMATS

    if trace_format in FORMATS and FORMATS[trace_format].read is None:
        dataset = ingest_history(path, out)
        return {
            "dataset": str(dataset.folder),
            "episodes": dataset.episodes,
            "decisions": dataset.decisions,
            "bytes": dataset.bytes,
            "digest": dataset.digest,
        }
    with progress("ingest") as tell:
        result = ingestion.ingest(trace_format, path, out, progress=tell)
    provenance = result.workload.provenance
    return {
        "workload": str(result.folder),
        "tasks": result.workload.tasks.height,
        "counts": dict(provenance.counts),
        "left_out": dict(provenance.left_out),
        "quarantined": result.quarantined,
    }


def build(
    recipe: str, out: Path, overrides: Sequence[str] = (), workers: int = 1
) -> dict[str, Any]:
    """Build the dataset of a recipe, or finish an interrupted build."""
    from pipeline import build as builder
    from pipeline.recipe import load_recipe
    from policies.registry import behaviours

    loaded = load_recipe(recipe, overrides)
    with progress(f"build {loaded.id}") as tell:
        result = builder.build(loaded, behaviours(loaded), out, workers=workers, progress=tell)
    return {
        "dataset": str(result.folder),
        "episodes": result.episodes,
        "decisions": result.decisions,
        "bytes": result.bytes,
        "digest": result.digest,
    }


def verify(dataset: Path) -> dict[str, Any]:
    """Recompute every claim of a dataset; raises VerificationFailed for the first that fails."""
    from pipeline import verify as verification
    from pipeline.errors import InputError
    from pipeline.manifest import read_manifest
    from policies.registry import behaviours

    try:
        known = behaviours(read_manifest(dataset).recipe)
    except InputError:
        # A broken manifest is for the verification to name; probabilities of rules that are not
        # here are checked as they stand.
        known = {}
    with progress("verify") as tell:
        result = verification.verify(dataset, known, progress=tell)
    return {
        "dataset": str(dataset),
        "checks": [{"check": name, "detail": detail} for name, detail in result.checks],
    }


def train(
    dataset: Path,
    agent: str,
    out: Path,
    steps: int,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train one offline agent on a dataset and write its checkpoint."""
    from policies.offline import training

    with progress(f"train {agent}, seed {seed}") as tell:
        folder = training.train(
            dataset, agent, steps=steps, seed=seed, out=out, settings=settings or {}, progress=tell
        )
    return {"checkpoint": str(folder), "agent": agent, "steps": steps, "seed": seed}


def evaluate(
    recipe: str,
    out: Path,
    policies: Sequence[str] = (),
    split: str = "test",
    overrides: Sequence[str] = (),
    workers: int = 1,
    command: str = "",
) -> dict[str, Any]:
    """Score policies on a split of a recipe; by default the policies that the recipe names."""
    from pipeline import evaluate as evaluation
    from pipeline.recipe import load_recipe
    from policies.candidates import candidates

    loaded = load_recipe(recipe, overrides)
    scored = candidates(loaded, policies or loaded.evaluate.policies)
    with progress(f"evaluate on {split}") as tell:
        result = evaluation.evaluate(
            loaded,
            scored,
            split=split,
            out=out,
            workers=workers,
            command=command,
            progress=tell,
        )
    return {
        "evaluation": str(result.folder),
        "split": split,
        "scores": result.rows,
        "means": dict(result.means),
    }


def report(
    evaluations: Sequence[Path],
    out: Path,
    training: Sequence[Path] = (),
    datasets: Sequence[Path] = (),
) -> dict[str, Any]:
    """Write the HTML report of evaluations, with summary.parquet and summary.md beside it."""
    from pipeline.report.page import write_report

    page = write_report(evaluations, out, training=training, datasets=datasets)
    return {"report": str(page)}


def calibrate(scenario: str, episodes: int | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """The spec's calibration table of a scenario from its own simulator, beside the paper's rows.

    Raises UnknownName for a scenario without one.
    """
    import importlib

    from pipeline.calibrations import CALIBRATIONS
    from pipeline.errors import unknown_name
    from policies.registry import heuristics

    if scenario not in CALIBRATIONS:
        raise unknown_name("calibration", scenario, CALIBRATIONS)
    module = importlib.import_module(CALIBRATIONS[scenario])
    sized = {} if episodes is None else {"episodes": episodes}
    with progress(f"calibrate {scenario}") as tell:
        table = module.calibrate(heuristics(scenario), seed=seed, progress=tell, **sized)
    rows: list[dict[str, Any]] = table.to_dicts()
    return rows
