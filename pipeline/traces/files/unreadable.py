"""Texts that are recognised and cannot be read, each with the way to a log that can be."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from hindcast.pipeline.errors import TraceError

_SACCT: Final = (
    "sacct -a -X -P --format=JobID,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,"
    "ElapsedRaw,TimelimitRaw,ReqCPUS,AllocCPUS,ReqNodes,ReqMem,ReqTRES,AllocTRES"
)
_JOB: Final = re.compile(r"^\d+(_\[?\d[^|]*)?(\.\w+)?\|")
_ISO_TIME: Final = re.compile(r"\|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\||$)")


def _is_ruled(lines: Sequence[str]) -> bool:
    """Return whether names stand above dashes, which give the widths of the columns."""
    return len(lines) > 1 and re.fullmatch(r"[-\s]*-{3,}[-\s]*", lines[1].strip()) is not None


def _is_headless(lines: Sequence[str]) -> bool:
    """Return whether lines are jobs of Slurm, separated by bars, without names of columns."""
    return all(_JOB.match(line) for line in lines[:3]) and _ISO_TIME.search(lines[0]) is not None


# What a text is -> whether its first lines are so, and what to do.
UNREADABLE: Final[Mapping[str, tuple[Callable[[Sequence[str]], bool], str]]] = {
    "the output of sacct printed without -P, which cuts values to the widths of columns": (
        lambda lines: _is_ruled(lines) and "jobid" in lines[0].lower(),
        f"print it with -P: {_SACCT}",
    ),
    "a text whose columns have fixed widths": (
        _is_ruled, "print it with a separator, such as a comma or a bar",
    ),
    "the output of sacct without a header, as with `sacct -n`": (
        _is_headless,
        "name the format slurm and its columns, in the order of --format: `--set columns=...`",
    ),
    "a web page": (
        lambda lines: re.match(r"(?i)\s*<(!doctype html|html|head)", lines[0]) is not None,
        "download the file itself",
    ),
    "XML": (
        lambda lines: re.match(r"\s*<(\?xml|[A-Za-z]\w*[ />])", lines[0]) is not None,
        "convert it to CSV with a row for each job",
    ),
    "a pointer of Git LFS, not the file": (
        lambda lines: lines[0].startswith("version https://git-lfs.github.com/spec/"),
        "fetch the file: git lfs pull",
    ),
}  # fmt: skip


def refuse_unreadable(path: Path, lines: Sequence[str]) -> None:
    """Raise TraceError if a file with these first lines is known to be no readable log."""
    for kind, (matches, how) in UNREADABLE.items():
        if matches(lines):
            raise TraceError(f"{path}: this is {kind}; {how}")
