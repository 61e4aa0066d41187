"""The flow behind `hindcast report`."""

from pathlib import Path
from typing import Any

from prefect import flow

from flows import steps
from flows.tasks import RECORDED, call_as_task


@flow(name="report", **RECORDED)
def report(
    evaluations: tuple[Path, ...],
    out: Path,
    training: tuple[Path, ...] = (),
    datasets: tuple[Path, ...] = (),
) -> dict[str, Any]:
    """Write one HTML page about evaluations, with its numbers as Parquet and Markdown.

    Args:
        evaluations: Folders that `evaluate` wrote.
        out: Folder that report.html and the summary files are written to.
        training: Folders of checkpoints, for their training curves.
        datasets: Folders of datasets to describe.
    """
    return call_as_task(
        steps.report, evaluations=evaluations, out=out, training=training, datasets=datasets
    )
