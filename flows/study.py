"""The flow behind `hindcast study`."""

from typing import Any

from prefect import flow

from flows.study_runs import run_study
from flows.tasks import RECORDED, Folder, GradientSteps, Name, Override, Seed, Workers, call_as_task


@flow(name="study", flow_run_name="study {vary} of {recipe}", **RECORDED)
def study(
    recipe: Name,
    out: Folder,
    agents: tuple[Name, ...],
    vary: Name,
    values: tuple[Name, ...] = (),
    seeds: tuple[Seed, ...] = (0,),
    steps: GradientSteps | None = None,
    overrides: tuple[Override, ...] = (),
    workers: Workers = 1,
    command: str = "",
) -> dict[str, Any]:
    """Train the same agents on several logs of one problem, and score them on the same windows.

    Args:
        recipe: Path of a recipe.toml, or the id of a recipe that comes with Hindcast.
        out: Folder of the study: a run per point, study.parquet and data_quality.md.
        agents: Names of the agents.
        vary: level, windows or epsilon.
        values: What the varied thing is at each point; all levels if empty.
        seeds: Of the trainings.
        steps: Gradient steps; the recipe's if not given.
        overrides: Values of the recipe to replace at every point, as section.key=value.
        workers: Threads that record and run episodes; they change no result.
        command: The command line that asked for it.
    """
    return run_study(
        recipe, out, agents, vary, values, seeds, steps, overrides, workers, command, call_as_task
    )
