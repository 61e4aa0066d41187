"""The flow behind `hindcast train`."""

from typing import Any

from prefect import flow

from flows.steps import train as train_step
from flows.tasks import RECORDED, Device, Folder, GradientSteps, Name, Seed, call_as_task


@flow(name="train", flow_run_name="train {agent}, seed {seed}", **RECORDED)
def train(
    dataset: Folder,
    agent: Name,
    out: Folder,
    steps: GradientSteps = 2000,
    seed: Seed = 0,
    settings: dict[str, Any] | None = None,
    device: Device = "auto",
    checkpoint_every: GradientSteps | None = None,
    tensorboard: str | None = None,
) -> dict[str, Any]:
    """Train one offline agent on a dataset and write its checkpoint.

    Args:
        dataset: Folder of a dataset that `build` wrote.
        agent: Name of the agent, see `hindcast train --help`.
        out: Folder that the checkpoint is written to.
        steps: Gradient steps.
        seed: Every random draw of the training descends from it.
        settings: Settings of the agent to replace, by name.
        device: auto, cpu or cuda; auto is a GPU where there is one.
        checkpoint_every: Steps between two checkpoints that are kept below `out`.
        tensorboard: Folder for the event files of TensorBoard, which must be installed.
    """
    return call_as_task(
        train_step, dataset=dataset, agent=agent, out=out, steps=steps, seed=seed,
        settings=settings, device=device, checkpoint_every=checkpoint_every,
        tensorboard=tensorboard,
    )  # fmt: skip
