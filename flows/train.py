"""The flow behind `hindcast train`."""

from pathlib import Path
from typing import Any

from prefect import flow

from flows.steps import train as train_step
from flows.tasks import RECORDED, GradientSteps, Name, Seed, call_as_task


@flow(name="train", flow_run_name="train {agent}, seed {seed}", **RECORDED)
def train(
    dataset: Path,
    agent: Name,
    out: Path,
    steps: GradientSteps = 2000,
    seed: Seed = 0,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train one offline agent on a dataset and write its checkpoint.

    Args:
        dataset: Folder of a dataset that `build` wrote.
        agent: Name of the agent, see `hindcast train --help`.
        out: Folder that the checkpoint is written to.
        steps: Gradient steps.
        seed: Every random draw of the training descends from it.
        settings: Settings of the agent to replace, by name.
    """
    return call_as_task(
        train_step, dataset=dataset, agent=agent, out=out, steps=steps, seed=seed, settings=settings
    )
