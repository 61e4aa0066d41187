"""Logs of decisions made elsewhere: their shapes, checks, and the dataset that is made of them.

The package is the reader of the trace format "decisions": `ingest(path, out)` makes a dataset, and
`check(dataset)` compares one with its record.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hindcast.pipeline.dataset import Dataset
    from hindcast.pipeline.dataset.building.results import BuildResult


def ingest(path: Path, out: Path) -> "BuildResult":
    """Read a log of decisions and write its dataset."""
    from hindcast.pipeline.decisions.conversion import ingest as convert_log

    return convert_log(path, out)


def check(dataset: "Dataset", trace: Path | None = None) -> tuple[str, str]:
    """Return the check of a dataset's decisions against their record, and its result."""
    from hindcast.pipeline.decisions.verification import check as check_log

    return check_log(dataset, trace)
