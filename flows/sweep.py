"""The flow behind `hindcast train --sweep`."""

from typing import Any

from prefect import flow

from flows.sweep_runs import run_sweep
from flows.tasks import RECORDED, Device, Folder, call_as_task


@flow(name="sweep", flow_run_name="sweep into {out}", **RECORDED)
def sweep(
    dataset: Folder,
    sweep: dict[str, Any],
    out: Folder,
    device: Device = "auto",
    where: str = "sweep",
) -> dict[str, Any]:
    """Train agents with several settings and seeds, one task each, and compare them.

    Args:
        dataset: Folder of a dataset that `build` wrote.
        sweep: What a sweep.toml holds: agents, seeds, steps, search, draws, seed, settings.
        out: Folder of the runs and of sweep.parquet; finished runs there are not done again.
        device: auto, cpu or cuda.
        where: Name of the sweep in error messages.
    """
    return run_sweep(dataset, sweep, out, device, where, call_as_task)
