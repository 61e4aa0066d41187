"""The flow behind `hindcast train-online`."""

from typing import Any

from prefect import flow

from flows.online_runs import train_seeds
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
    seeds: tuple[Seed, ...] = (),
    start: Folder | None = None,
    imitate: Folder | None = None,
    imitate_steps: GradientSteps | None = None,
    device: Device = "auto",
    workers: Workers = 1,
    checkpoint_every: GradientSteps | None = None,
) -> dict[str, Any]:
    """Train one online agent on a recipe's train windows, with one seed or several.

    Args:
        recipe: Path of a recipe.toml, or the id of a recipe that comes with Hindcast.
        out: Folder that the checkpoint is written to.
        overrides: Values of the recipe to replace, as section.key=value; they enter its digest.
        agent: Name of the agent, by default that of the recipe's [online].
        iterations: Batches of trajectories, by default those of the recipe's [online].
        seed: Every random draw of the training descends from it.
        seeds: Where given, the agent is trained with each of them, below runs/ of `out`.
        start: Folder of a checkpoint to go on from.
        imitate: Folder of a dataset whose best behaviours are imitated before the first play.
        imitate_steps: Gradient steps of that, by default the recipe's, or 2000.
        device: auto, cpu or cuda; auto is a GPU where there is one.
        workers: Threads that play episodes; they change no result.
        checkpoint_every: Iterations between two checkpoints that are kept below `out`.
    """
    return train_seeds(
        recipe, out, seeds, call_as_task, overrides=overrides, agent=agent,
        iterations=iterations, seed=seed, start=start, imitate=imitate,
        imitate_steps=imitate_steps, device=device, workers=workers,
        checkpoint_every=checkpoint_every,
    )  # fmt: skip
