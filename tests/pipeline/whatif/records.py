"""Records for tests: real logs, logs of known schedulers, and jobs written by hand."""

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.traces import swf
from hindcast.pipeline.whatif.record import Record, read_record
from tests.conftest import require_traces

FILES = {
    "KTH-SP2-1996-2": "swf/KTH-SP2-1996-2.swf.gz",
    "SDSC-SP2-1998-4": "swf/SDSC-SP2-1998-4.2-cln.swf.gz",
    "SDSC-BLUE-2000-4": "swf/SDSC-BLUE-2000-4.2-cln.swf.gz",
    "CTC-SP2-1996-3": "swf/CTC-SP2-1996-3.1-cln.swf.gz",
}


def beside_traces(path: str) -> Path:
    """Return a file beside the folder of traces; skip the test where it is absent."""
    return require_traces(f"../{path}")


def golden(path: str) -> pl.DataFrame:
    return pl.read_csv(beside_traces(path))


@cache
def workload(name: str):
    """Return the workload of a real log, or of a case with a known scheduler."""
    if name in FILES:
        return swf.read(require_traces(FILES[name]))[0]
    return swf.read(beside_traces(f"cases/whatif/{name}.swf.gz"))[0]


@cache
def record(name: str) -> Record:
    return read_record(workload(name))


def by_hand(processors: int, *jobs: tuple[int, ...], **columns) -> Record:
    """Return a record of jobs (arrive, start or None, run, cpu), in order of arrival.

    Requested times equal run times and every job has user 0, unless `columns` say otherwise.
    """
    arrive, start, run, cpu = (np.array(of, object) for of in zip(*jobs, strict=True))
    start = np.array([NEVER if one is None else one for one in start], np.int64)
    arrive, run, cpu = (of.astype(np.int64) for of in (arrive, run, cpu))
    unknown, zero = np.full(len(run), -1), np.zeros(len(run), np.int64)
    values = {
        "submit": arrive, "requested": run, "user": zero, "key": zero, "queue": unknown,
        "partition": unknown, "qos": unknown, "account": unknown, "nodes": unknown,
        **{name: np.asarray(of, np.int64) for name, of in columns.items()},
    }  # fmt: skip
    return Record(
        processors=processors, row=np.arange(len(run)), arrive=arrive, cpu=cpu, run=run,
        start=start, **values,
    )  # fmt: skip
