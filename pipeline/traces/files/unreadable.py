"""Texts that are recognised and cannot be read, each with the way to a log that can be."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.slurm_output.header import DOCUMENTED, is_cut

_SACCT: Final = f"sacct -a -X -P --format={','.join(DOCUMENTED)}"


def _is_ruled(lines: Sequence[str]) -> bool:
    """Return whether names stand above dashes, which give the widths of the columns."""
    return len(lines) > 1 and re.fullmatch(r"[-\s]*-{3,}[-\s]*", lines[1].strip()) is not None


def _begins(pattern: str) -> Callable[[Sequence[str]], bool]:
    """Return a function of the first lines: whether the first one begins with a pattern."""
    return lambda lines: re.match(pattern, lines[0].lstrip()) is not None


_PBS: Final = "that of Torque in server_priv/accounting"
# Command that shows jobs in the queue -> how its output begins, and where ended jobs are.
_QUEUES: Final[Mapping[str, tuple[str, str]]] = {
    "squeue": (r"JOBID\s+PARTITION\s+NAME\s", _SACCT),
    "scontrol": (r"JobId=\d+ (JobName|UserId)=", _SACCT),
    "qstat of PBS": (r"(Job id\s+Name\s+User|Job Id: \S+$|Job ID\s+Username)", _PBS),
    "qstat of Grid Engine": (r"job-ID\s+prior\s+name", "$SGE_ROOT/$SGE_CELL/common/accounting"),
    "qstat of Cobalt": (r"JobID\s+User\s+WallTime\s+Nodes", "the log of its accounting"),
    "bjobs, bhist or bacct": (
        r"(JOBID\s+USER\s+(STAT|JOB_NAME)|Job <\d+|Accounting information about|Summary of time)",
        "lsb.acct in $LSB_SHAREDIR/CLUSTER/logdir",
    ),
    "condor_q or condor_history as a table": (
        r"(-- Schedd:|ID\s+OWNER\s+SUBMITTED)", "condor_history -json > jobs.json",
    ),
}  # fmt: skip


# What a text is -> whether its first lines are so, and what to do.
UNREADABLE: Final[Mapping[str, tuple[Callable[[Sequence[str]], bool], str]]] = {
    **{
        f"the output of {command}": (_begins(pattern), f"give the jobs that ended: {how}")
        for command, (pattern, how) in _QUEUES.items()
    },
    "the event log of HTCondor": (
        _begins(r"\d{3} \(\d+\.\d+\.\d+\) "), "write the history: condor_history -json > jobs.json",
    ),
    "lsb.events of LSF, the events of jobs that may still run": (
        _begins(r'"(JOB_|MBD_|LOAD_INDEX|QUEUE_|HOST_|LOG_SWITCH)[A-Z_]*" "[\d.]+" \d+|#\d+ '),
        "give lsb.acct, which is in the same folder",
    ),
    "the totals of qacct": (_begins(r"Total System Usage"), "print the jobs: qacct -j '*'"),
    "a file of events of Moab": (
        _begins(r"\d\d:\d\d:\d\d \d{9,}(:\d+)?\s+\w+\s+(JOB|NODE|SCHED)"),
        f"give the accounting log of its resource manager, such as {_PBS}",
    ),
    "a workload trace of Maui": (
        _begins(r"VERSION \d+\s*$"),
        f"give the accounting log of its resource manager, such as {_PBS}",
    ),
    "the totals of a run of Batsim": (
        _begins("batsim_version,"), "give PREFIX_jobs.csv, which is in the same folder",
    ),
    "the output of sacct printed without -P, which cuts values to the widths of columns": (
        lambda lines: lines[0].lstrip()[:1] not in {"{", "["} and is_cut(lines),
        f"print it with -P: {_SACCT}",
    ),
    "a text whose columns have fixed widths": (
        _is_ruled, "print it with a separator, such as a comma or a bar",
    ),
    "the output of kubectl -o json": (
        lambda lines: lines[0].lstrip().startswith("{")
        and re.search(r'"apiVersion": ?"|"kind": ?"(Pod)?List"', " ".join(lines[:4])) is not None,
        "make a table of the finished pods with jq, as the page Export a log does",
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
