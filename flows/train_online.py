"""The flow behind `hindcast train-online`."""

from typing import Any

from prefect import flow

from flows.steps import train_online as train_online_step
from flows.tasks import (
    RECORDED,
    Device,
    Folder,
    GradientSteps,
    Name,
    Override,
    Seed,
    Workers,
    call_as_task,
)


@flow(name="train_online", flow_run_name="train online on {recipe}, seed {seed}", **RECORDED)
def train_online(
    recipe: Name,
    out: Folder,
    overrides: tuple[Override, ...] = (),
    agent: Name | None = None,
    iterations: GradientSteps | None = None,
    seed: Seed = 0,
    start: Folder | None = None,
    device: Device = "auto",
    workers: Workers = 1,
    checkpoint_every: GradientSteps | None = None,
) -> dict[str, Any]:
    """Train one online agent on a recipe's train windows and write its checkpoint.

    Args:
        recipe: Path of a recipe.toml, or the id of a recipe that comes with Hindcast.
        out: Folder that the checkpoint is written to.
        overrides: Values of the recipe to replace, as section.key=value; they enter its digest.
        agent: Name of the agent, by default that of the recipe's [online].
        iterations: Batches of trajectories, by default those of the recipe's [online].
        seed: Every random draw of the training descends from it.
        start: Folder of a checkpoint to go on from.
        device: auto, cpu or cuda; auto is a GPU where there is one.
        workers: Threads that play episodes; they change no result.
        checkpoint_every: Iterations between two checkpoints that are kept below `out`.
    """
    return call_as_task(
        train_online_step, recipe=recipe, out=out, overrides=overrides, agent=agent,
        iterations=iterations, seed=seed, start=start, device=device, workers=workers,
        checkpoint_every=checkpoint_every,
    )  # fmt: skip
