"""Recognition of the format of a log of jobs, by its first lines."""

import contextlib
import re
from pathlib import Path
from typing import Final

from hindcast.pipeline.errors import RecipeError, TraceError
from hindcast.pipeline.recipes.toml_text import read_toml
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.files.compression import PARQUET, first_bytes
from hindcast.pipeline.traces.files.one_log import first_file
from hindcast.pipeline.traces.files.unreadable import refuse_unreadable
from hindcast.pipeline.traces.first_look import head_lines, no_such_file

_EXPECTED: Final = (
    "a log of jobs: SWF, the output of `sacct -P`, the accounting of PBS, Grid Engine, LSF or "
    "HTCondor, a mapping (.toml) of a table, or a workload that `hindcast ingest` wrote"
)
_MAPPING: Final = ".toml"
_SEPARATORS: Final = re.compile(r"[|,;\t]")
_JOB_IDS: Final = {"jobid", "job_id", "jobidraw"}
_SIZES: Final = {"alloccpus", "ncpus", "reqcpus", "alloctres", "reqtres", "processors_req"}


def recognise(path: Path) -> str:
    """Return the name of the format of a log of jobs: a file, or a folder of files of one log.

    Raises TraceError if it is none that can be read. A table of jobs needs a mapping, which the
    message says.
    """
    if not path.exists():
        no_such_file(path, _EXPECTED)
    if path.suffix == _MAPPING and not path.is_dir():
        with contextlib.suppress(RecipeError):  # left to the reader of the mapping
            if "scenario" in read_toml(path):
                raise TraceError(
                    f"{path}: this is a recipe, expected a log of jobs; `hindcast run {path}` runs "
                    "it"
                )
        return "table"
    file = first_file(path)
    if file.is_file() and first_bytes(file).startswith(PARQUET):
        raise TraceError(f"{path}: this is a table; {_mapped(path)}")
    lines = [line for line in head_lines(file, _EXPECTED) if line.strip()]
    for name, form in FORMATS.items():
        if form.recognises is not None and form.recognises(lines):
            return name
    refuse_unreadable(file, lines)
    first = lines[0]
    names = {name.strip().strip('"').lower() for name in _SEPARATORS.split(first)}
    if names & _JOB_IDS and names & _SIZES and "state" in names:
        return "slurm"
    if len(names) > 1:
        raise TraceError(
            f"{path}: the first line, {first[:60]!r}, is the header of a table that no format "
            f"names; {_mapped(path)}, or name the format with --format"
        )
    raise TraceError(
        f"{path}: the first line is {first[:60]!r}, expected {_EXPECTED}; name the format with "
        "--format if it is one of them"
    )


def _mapped(path: Path) -> str:
    return (
        f"`hindcast init {path}` proposes a mapping of its columns, to be given in its place, or "
        "to `hindcast ingest decisions` if the table is of decisions"
    )
