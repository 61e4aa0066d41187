"""The flow behind `hindcast ingest`."""

from typing import Any

from prefect import flow

from flows import steps
from flows.tasks import RECORDED, Folder, Name, call_as_task


@flow(name="ingest", flow_run_name="ingest {trace_format}", **RECORDED)
def ingest(trace_format: Name, path: Folder, out: Folder) -> dict[str, Any]:
    """Read a raw trace and write a workload folder.

    Args:
        trace_format: Name of the raw format, see `hindcast traces`.
        path: File or folder of the raw trace.
        out: Folder that the workload is written to.
    """
    return call_as_task(steps.ingest, trace_format=trace_format, path=path, out=out)
