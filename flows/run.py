"""The flow behind `hindcast run`."""

from typing import Any

from prefect import flow
from prefect.logging import get_run_logger

from flows.progress import Lines, showing
from flows.stages import run_stages
from flows.tasks import RECORDED, Folder, Name, Override, Workers, call_as_task


@flow(name="run", flow_run_name="run {recipe}", **RECORDED)
def run(
    recipe: Name,
    out: Folder,
    overrides: tuple[Override, ...] = (),
    workers: Workers = 1,
    command: str = "",
) -> dict[str, Any]:
    """Build, verify, train, evaluate and report; what was done before is not done again.

    Args:
        recipe: Path of a recipe.toml, or the id of a recipe that comes with Hindcast.
        out: Folder of the run: dataset/, agents/, evaluation/ and report.html.
        overrides: Values of the recipe to replace, as section.key=value; they enter its digest.
        workers: Threads that record and run episodes; they change no result.
        command: The command line that asked for it, kept in evaluation.json.
    """
    with showing(Lines(get_run_logger().info)):
        return run_stages(recipe, out, overrides, workers, command, call=call_as_task)
