"""The flow behind `hindcast report`."""

from typing import Any

from prefect import flow

from flows import steps
from flows.tasks import RECORDED, Folder, Name, call_as_task


@flow(name="report", **RECORDED)
def report(
    evaluations: tuple[Folder, ...],
    out: Folder,
    training: tuple[Folder, ...] = (),
    datasets: tuple[Folder, ...] = (),
    estimates: tuple[Folder, ...] = (),
    studies: tuple[Folder, ...] = (),
    metrics: tuple[Name, ...] = (),
) -> dict[str, Any]:
    """Write one HTML page about evaluations, with its numbers as Parquet and Markdown.

    Args:
        evaluations: Folders that `evaluate` wrote.
        out: Folder that report.html and the summary files are written to.
        training: Folders of checkpoints, for their training curves.
        datasets: Folders of datasets to describe.
        estimates: Folders that `hindcast ope` wrote.
        studies: Folders that `hindcast study` wrote.
        metrics: Outcomes that stand in results.csv beside the headline.
    """
    return call_as_task(
        steps.report, evaluations=evaluations, out=out, training=training, datasets=datasets,
        estimates=estimates, studies=studies, metrics=metrics,
    )  # fmt: skip
