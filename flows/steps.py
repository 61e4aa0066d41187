"""What a task does: one function per step of the pipeline, each a call into pipeline/ or policies/.

Arguments are names, numbers and paths; results are small JSON values. The Prefect flows run these
as tasks, the command line with --direct calls them as they are. Libraries are imported where they
are used, so that a step loads no more than it needs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from flows.progress import progress
from pipeline.storage.location import location

Place: TypeAlias = Path | str  # of a folder or a file: a path, or a URL as text


def ingest(trace_format: str, path: Place, out: Place) -> dict[str, Any]:
    """Read a raw trace and write a workload, or recorded decisions and write a dataset."""
    from pipeline.history.importing import ingest_history
    from pipeline.traces import FORMATS
    from pipeline.traces import ingest as ingestion

    path, out = location(path), location(out)
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
    recipe: str,
    out: Place,
    overrides: Sequence[str] = (),
    workers: int = 1,
    append: bool = False,
) -> dict[str, Any]:
    """Build the dataset of a recipe, or add to it; finish what was interrupted."""
    from pipeline.building.append import append as add
    from pipeline.building.build import build as make
    from pipeline.recipes.loading import load_recipe
    from policies.registry import behaviours

    loaded = load_recipe(recipe, overrides)
    place, known = location(out), behaviours(loaded)
    with progress(f"{'append' if append else 'build'} {loaded.id}") as tell:
        result = (add if append else make)(loaded, known, place, workers=workers, progress=tell)
    return {
        "dataset": str(result.folder),
        "episodes": result.episodes,
        "decisions": result.decisions,
        "bytes": result.bytes,
        "digest": result.digest,
    }


def verify(dataset: Place) -> dict[str, Any]:
    """Recompute every claim of a dataset; raises VerificationFailed for the first that fails."""
    from pipeline.dataset.manifest import read_manifest
    from pipeline.errors import InputError
    from pipeline.simulation.policy import Behaviour
    from pipeline.verification import verify as verification
    from policies.registry import behaviours

    dataset = location(dataset)
    known: dict[str, Behaviour] = {}
    try:
        for recipe in read_manifest(dataset).recipes:
            known |= behaviours(recipe)
    except InputError:
        # A broken manifest is for the verification to name; probabilities of rules that are not
        # here are checked as they stand.
        pass
    with progress("verify") as tell:
        result = verification.verify(dataset, known, progress=tell)
    return {
        "dataset": str(dataset),
        "checks": [{"check": name, "detail": detail} for name, detail in result.checks],
    }


def train(
    dataset: Place,
    agent: str,
    out: Place,
    steps: int,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    checkpoint_every: int | None = None,
    tensorboard: str | None = None,
) -> dict[str, Any]:
    """Train one offline agent on a dataset and write its checkpoint, or finish that."""
    from policies.offline import training
    from policies.training.run_folder import BEST

    with progress(f"train {agent}, seed {seed}") as tell:
        folder = training.train(
            location(dataset),
            agent,
            steps=steps,
            seed=seed,
            out=location(out),
            settings=settings or {},
            device=device,
            checkpoint_every=checkpoint_every,
            tensorboard=None if tensorboard is None else Path(tensorboard),
            progress=tell,
        )
    best = folder / BEST
    return {
        "checkpoint": str(folder),
        "best": str(best) if best.is_dir() else None,
        "agent": agent,
        "steps": steps,
        "seed": seed,
    }


def train_online(
    recipe: str,
    out: Place,
    overrides: Sequence[str] = (),
    agent: str | None = None,
    iterations: int | None = None,
    seed: int = 0,
    start: Place | None = None,
    imitate: Place | None = None,
    imitate_steps: int | None = None,
    device: str = "auto",
    workers: int = 1,
    checkpoint_every: int | None = None,
) -> dict[str, Any]:
    """Train one online agent on a recipe's train windows and write its checkpoint."""
    from pipeline.recipes.loading import load_recipe
    from policies.online import training
    from policies.online.imitation import Imitation
    from policies.training.run_folder import BEST

    loaded = load_recipe(recipe, overrides)
    name = agent or loaded.online.agent
    imitation = None
    if imitate is not None:
        steps = imitate_steps or loaded.online.imitate_steps or Imitation.steps
        imitation = Imitation(location(imitate), steps)
    with progress(f"train {name} on {loaded.id}, seed {seed}") as tell:
        folder = training.train_online(
            loaded,
            out=location(out),
            agent=agent,
            iterations=iterations,
            seed=seed,
            start=None if start is None else location(start),
            imitation=imitation,
            device=device,
            workers=workers,
            checkpoint_every=checkpoint_every,
            progress=tell,
        )
    best = folder / BEST
    return {
        "checkpoint": str(folder),
        "best": str(best) if best.is_dir() else None,
        "agent": name,
        "steps": iterations or loaded.online.iterations,
        "seed": seed,
    }


def evaluate(
    recipe: str,
    out: Place,
    policies: Sequence[str] = (),
    split: str = "test",
    overrides: Sequence[str] = (),
    workers: int = 1,
    command: str = "",
) -> dict[str, Any]:
    """Score policies on a split of a recipe; by default the policies that the recipe names."""
    from pipeline.evaluation import evaluate as evaluation
    from pipeline.recipes.loading import load_recipe
    from policies.entrants import candidates

    loaded = load_recipe(recipe, overrides)
    scored = candidates(loaded, policies or loaded.evaluate.policies)
    with progress(f"evaluate on {split}") as tell:
        result = evaluation.evaluate(
            loaded,
            scored,
            split=split,
            out=location(out),
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
    evaluations: Sequence[Place],
    out: Place,
    training: Sequence[Place] = (),
    datasets: Sequence[Place] = (),
    estimates: Sequence[Place] = (),
    studies: Sequence[Place] = (),
    metrics: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the HTML report of evaluations, with summary.parquet and summary.md beside it."""
    from pipeline.report.page import write_report

    page = write_report(
        [*map(location, evaluations)],
        location(out),
        training=[*map(location, training)],
        datasets=[*map(location, datasets)],
        estimates=[*map(location, estimates)],
        studies=[*map(location, studies)],
        metrics=metrics,
    )
    return {"report": str(page)}


def ope(
    dataset: Place,
    policies: Sequence[str] = (),
    out: Place | None = None,
    truth: bool = True,
    command: str = "",
    **settings: Any,
) -> dict[str, Any]:
    """Estimate from a dataset what policies would earn; `settings` are those of OPESettings."""
    from policies.ope.ope import OPESettings, evaluate_offline

    if settings.get("estimators") is None:
        settings.pop("estimators", None)
    else:
        settings["estimators"] = tuple(settings["estimators"])
    if not truth:
        settings["truth_seeds"] = 0
    with progress("estimate") as tell:
        found = evaluate_offline(
            location(dataset),
            policies,
            OPESettings(**settings),
            out=None if out is None else location(out),
            command=command,
            progress=tell,
        )
    return {
        "about": {**found.description, "out": None if out is None else str(out)},
        "rows": found.rows.to_dicts(),
    }


def export(dataset: Path, to: str, out: Path, candidates: int | None = None) -> dict[str, Any]:
    """Write a dataset in the format of another tool, with what that format cannot hold."""
    from pipeline import exports

    form = exports.known_export(to)
    with progress(f"export to {to}") as tell:
        result = exports.export(dataset, to, out, candidates=candidates, progress=tell)
    return {
        "export": str(result.path),
        "format": to,
        "files": result.files,
        "bytes": result.bytes,
        "notes": list(result.notes),
        "lost": form.lost,
    }


def calibrate(scenario: str, episodes: int | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """The spec's calibration table of a scenario from its own simulator, beside the paper's rows.

    Raises UnknownName for a scenario without one.
    """
    import importlib

    from pipeline.calibration import CALIBRATIONS
    from pipeline.errors import unknown_name
    from policies.heuristics import heuristics

    if scenario not in CALIBRATIONS:
        raise unknown_name("calibration", scenario, CALIBRATIONS)
    module = importlib.import_module(CALIBRATIONS[scenario])
    sized = {} if episodes is None else {"episodes": episodes}
    with progress(f"calibrate {scenario}") as tell:
        table = module.calibrate(heuristics(scenario), seed=seed, progress=tell, **sized)
    rows: list[dict[str, Any]] = table.to_dicts()
    return rows
