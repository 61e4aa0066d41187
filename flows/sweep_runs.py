"""The trainings of a sweep, each a step of its own, and the table of what they came to.

OUT/runs/<agent>-<digest of settings>-seed<seed>    a training, see policies.offline.training
OUT/sweep.parquet                                   one row per training, the best first
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows import steps
from flows.progress import note
from flows.stages import Call, directly
from pipeline.errors import DatasetError
from pipeline.storage.files import write_atomically
from pipeline.storage.location import location


def run_sweep(
    dataset: Path | str,
    sweep: Mapping[str, Any],
    out: Path | str,
    device: str = "auto",
    where: str = "sweep",
    call: Call = directly,
) -> dict[str, Any]:
    """Run every training through `call`; those that are finished are not done again.

    A training that fails on its data or diverges gets a row that says so, and the others go on;
    where all fail, the first failure is raised. Raises RecipeError for a sweep that is not valid.
    """
    from policies.offline.sweep import plan
    from policies.offline.sweep_table import NAME, summary, tabulate

    place, runs = location(out), plan(sweep, where)
    folders = [place / "runs" / run.name for run in runs]
    errors: dict[str, str] = {}
    for number, (run, folder) in enumerate(zip(runs, folders, strict=True), start=1):
        note(f"training {number} of {len(runs)}: {run.name}")
        try:
            call(
                steps.train, dataset=str(dataset), agent=run.agent, out=str(folder),
                steps=run.steps, seed=run.seed, settings=dict(run.settings), device=device,
            )  # fmt: skip
        except DatasetError as error:
            errors[run.name] = str(error)
            if len(errors) == len(runs):
                raise
    table = tabulate(runs, folders, errors)
    write_atomically(place / NAME, table.write_parquet)
    return {
        "sweep": str(place / NAME),
        "runs": len(runs),
        "failed": errors,
        "lines": summary(table),
    }
