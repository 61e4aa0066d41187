"""The flow behind `hindcast evaluate`."""

from typing import Any

from prefect import flow

from flows import steps
from flows.tasks import RECORDED, Folder, Name, Override, Workers, call_as_task


@flow(name="evaluate", flow_run_name="evaluate {recipe} on {split}", **RECORDED)
def evaluate(
    recipe: Name,
    out: Folder,
    policies: tuple[Name, ...] = (),
    split: Name = "test",
    overrides: tuple[Override, ...] = (),
    workers: Workers = 1,
    command: str = "",
) -> dict[str, Any]:
    """Score policies on the windows of a split, all on the same ones.

    Args:
        recipe: Path of a recipe.toml, or the id of a recipe that comes with Hindcast.
        out: Folder that scores.parquet and evaluation.json are written to.
        policies: Names of policies or folders of checkpoints; the recipe's policies if empty.
        split: Name of a split of the recipe, or "all".
        overrides: Values of the recipe to replace, as section.key=value; they enter its digest.
        workers: Threads that run episodes; the scores are the same for any number.
        command: The command line that asked for it, kept in evaluation.json.
    """
    return call_as_task(
        steps.evaluate, recipe=recipe, out=out, policies=policies, split=split,
        overrides=overrides, workers=workers, command=command,
    )  # fmt: skip
