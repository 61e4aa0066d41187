"""The flow behind `hindcast build`."""

from typing import Any

from prefect import flow

from flows import steps
from flows.tasks import RECORDED, Folder, Name, Override, Workers, call_as_task


@flow(name="build", flow_run_name="build {recipe}", **RECORDED)
def build(
    recipe: Name,
    out: Folder,
    overrides: tuple[Override, ...] = (),
    workers: Workers = 1,
    append: bool = False,
) -> dict[str, Any]:
    """Build the dataset of a recipe, or finish a build that was interrupted.

    Args:
        recipe: Path of a recipe.toml, or the id of a recipe that comes with Hindcast.
        out: Folder that the dataset is written to; where it was built before, nothing is done.
        overrides: Values of the recipe to replace, as section.key=value; they enter its digest.
        workers: Threads that record; the dataset is the same for any number.
        append: Add the recipe's episodes to the finished dataset that is there, as new parts.
    """
    return call_as_task(
        steps.build, recipe=recipe, out=out, overrides=overrides, workers=workers, append=append
    )
