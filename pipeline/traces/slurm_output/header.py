"""Header of a log of Slurm: the columns of the file, their names, and what separates them.

JobID|User|State|...            sacct -P: the names of its columns
1000|ann|COMPLETED|...          sacct -n -P: no header, so that the columns have to be named
JobID       User      State     sacct without -P: cut to a width, which cannot be read
,JobID,User,State               pandas: the first column numbers the rows
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hindcast.pipeline.errors import TraceError, nearest
from hindcast.pipeline.traces.slurm_output.states import STATES

# Columns of the documented command, in its order.
DOCUMENTED: Final = (
    "JobID", "User", "Account", "Partition", "QOS", "State", "Submit", "Eligible", "Start", "End",
    "ElapsedRaw", "TimelimitRaw", "ReqCPUS", "AllocCPUS", "ReqNodes", "ReqMem", "ReqTRES",
    "AllocTRES",
)  # fmt: skip
# Columns that are read, in lowercase; those with `_` are of other programs.
READ: Final = (
    "jobid", "jobidraw", "state", "submit", "eligible", "start", "end", "elapsedraw", "elapsed",
    "timelimitraw", "timelimit", "limit_s", "reqcpus", "alloccpus", "ncpus", "reqtres", "alloctres",
    "reqmem", "memory_mb", "reqnodes", "allocnodes", "nnodes", "allocgres", "reqgres", "user",
    "account", "group", "jobname", "qos", "partition", "cluster",
)  # fmt: skip
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {  # one of each
    "JobID": ("jobid", "jobidraw"),
    "State": ("state",),
    "Submit": ("submit",),
    "Start": ("start",),
    "ElapsedRaw": ("elapsedraw", "elapsed", "end"),
    "AllocCPUS": ("alloccpus", "ncpus", "alloctres", "reqcpus", "reqtres"),
}
# Names of other programs, in lowercase and without signs -> the column that they are read as.
_OTHER_NAMES: Final[Mapping[str, str]] = {
    # the sample of Eagle
    "submittime": "submit", "starttime": "start", "endtime": "end", "runtime": "elapsedraw",
    "wallclockreq": "limit_s", "processorsreq": "reqcpus", "nodesreq": "reqnodes",
    "memreq": "memory_mb", "name": "jobname", "limits": "limit_s", "memorymb": "memory_mb",
    # the job table of Slurm's database
    "idjob": "jobid", "timesubmit": "submit", "timeeligible": "eligible", "timestart": "start",
    "timeend": "end", "cpusreq": "reqcpus", "nodesalloc": "allocnodes", "tresalloc": "alloctres",
    "tresreq": "reqtres", "iduser": "user", "idqos": "qos", "idgroup": "group",
    "gresreq": "reqgres", "gresalloc": "allocgres", "cpusalloc": "alloccpus",
}  # fmt: skip
_OF_DATABASE: Final = "timesubmit"  # a table that has it gives `timelimit` in minutes
_SEPARATORS: Final = ("|", ",", ";", "\t")
_OWN_SEPARATOR: Final = re.compile(r'\W*\w+(?:%-?\d+)?([^\w\s"%]{1,3})\w')
_DASHES: Final = re.compile(r"-{3,}( +-{3,})+ *")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")  # the beginning of a time
_CLOCK: Final = re.compile(r"(\d+-)?\d\d:\d\d:\d\d(\.\d+)?")
_CUT: Final = (
    "this is the output of sacct, printed without -P, which cuts values to the widths of columns; "
    "print it again with `sacct -P`"
)
_ROWS: Final = 50  # looked at
_FEWEST: Final = 3  # known names of a header
_NOT_READ: Final = "-"  # name of a column that is not read, in the setting `columns`


@dataclass(frozen=True)
class Header:
    """Columns of a log.

    Attributes:
        line: Line of the header, from 1; None if the log has none.
        text: The header as a line of the log.
        separator: Text between two columns.
        labels: Names of all columns as written, in file order.
        names: The same as names of READ and other names in lowercase.
    """

    line: int | None
    text: str
    separator: str
    labels: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def read(self) -> dict[str, str]:
        """Columns that are read, with their names in the file; the first of one name counts."""
        labels: dict[str, str] = {}
        for label, name in zip(self.labels, self.names, strict=True):
            if name in READ:
                labels.setdefault(name, label)
        return labels

    @property
    def unread(self) -> list[str]:
        """Names of the columns that are not read."""
        read = self.read
        pairs = zip(self.labels, self.names, strict=True)
        return [label for label, name in pairs if label and read.get(name) != label]

    @property
    def in_order(self) -> list[str]:
        """Columns in file order, "" for those that are not read."""
        columns: list[str] = []
        for name in self.names:
            columns.append(name if name in READ and name not in columns else "")
        return columns


def is_cut(lines: Sequence[str]) -> bool:
    """Return whether the first lines, which are not blank, were printed without -P."""
    first, rows = lines[0], lines[1:]
    if _known(_names(_split(first, _separator(first)))) >= _FEWEST:
        return False
    words = first.split()
    if "jobid" in _names(words) and rows and _DASHES.fullmatch(rows[0].strip()):
        return True
    has_row = _is_state(words) and any(_ISO.match(word) is not None for word in words)
    return has_row or _known(_names(words)) >= _FEWEST


def without_header(lines: Sequence[str]) -> str | None:
    """Return what to do about lines of sacct that have no header; None if they are none."""
    fields = _split(lines[0], _separator(lines[0]))
    if _known(_names(fields)) >= _FEWEST or len(fields) < _FEWEST or not _is_state(fields):
        return None
    names = ",".join(_guessed(fields))
    return (
        "this is the output of sacct without a header, as with `sacct -n` (no header): name its "
        f"{len(fields)} columns in order, `-` for one that is not to be read: --set columns={names}"
    )


def header_of(path: Path, lines: Sequence[str], columns: Sequence[str]) -> Header:
    """Return the header of a log, or that of `columns` if they are given.

    `lines` are the first ones, without their ends. Raises TraceError if the log cannot be read, or
    lacks a column.
    """
    number, first = next((n, line) for n, line in enumerate(lines, 1) if line.strip())
    if columns:
        return _given(path, [line for line in lines if line.strip()], number, columns)
    separator = _separator(first)
    labels = [label.strip(' \t\r"') for label in _split(first, separator)]
    rows = [_split(line, separator) for line in lines[number : number + _ROWS] if line.strip()]
    if rows and all(len(row) == len(labels) + 1 for row in rows) and _number_the_rows(rows):
        labels = ["", *labels]
    header = Header(number, first, separator, tuple(labels), tuple(_names(labels)))
    texts = [line for line in lines if line.strip()]
    _require(path, header, f"line {number}", _CUT if is_cut(texts) else without_header(texts))
    return header


def _given(path: Path, lines: Sequence[str], number: int, columns: Sequence[str]) -> Header:
    """Return the header that the setting `columns` gives."""
    labels = ["" if name == _NOT_READ else name for name in columns]
    rows = lines[:_ROWS]
    widths = {sign: [len(_split(row, sign)) for row in rows] for sign in _SEPARATORS}
    separator = next((s for s in _SEPARATORS if len(columns) in widths[s]), None)
    if separator is None:
        separator = _separator(rows[0])
        raise TraceError(
            f"{path}: columns names {len(columns)} columns, but line {number} has "
            f"{len(_split(rows[0], separator))}"
        )
    names = _names(labels)
    is_header = _names(_split(rows[0], separator)) == names
    text = rows[0] if is_header else separator.join(labels)
    header = Header(number if is_header else None, text, separator, tuple(labels), tuple(names))
    _require(path, header, "columns")
    return header


def _require(path: Path, header: Header, where: str, why: str | None = None) -> None:
    """Raise TraceError, with the reason `why` if it is known, if a header lacks a column."""
    read = header.read
    for wanted, options in _NEEDED.items():
        if not read.keys() & set(options):
            fault = f"{where} has no column {wanted}"
            if why:
                raise TraceError(f"{path}: {fault}: {why}")
            close = nearest(wanted.lower(), [label.lower() for label in header.unread])
            hint = f"; is it the column {close!r}?" if close else ""
            raise TraceError(
                f"{path}: {fault}, expected the header of `sacct -P "
                f"--format=JobID,State,Submit,Start,End,ElapsedRaw,AllocCPUS,...`{hint}"
            )


def _separator(line: str) -> str:
    """Return the separator of a line: one of the usual ones, else that behind its first word."""
    usual = max(_SEPARATORS, key=line.count)
    own = _OWN_SEPARATOR.match(line)
    return own[1] if usual not in line and own else usual


def _split(line: str, separator: str) -> list[str]:
    """Return the fields of a line; separators in quotes separate nothing in a CSV file."""
    if '"' in line and len(separator) == 1 and separator != "|":
        try:
            return next(csv.reader([line], delimiter=separator), [])
        except csv.Error:
            pass
    return line.split(separator)


def _names(labels: Sequence[str]) -> list[str]:
    """Return names as those of READ, in any case and with any signs."""
    # Formats such as `JobID%20` set a width, which is no part of the name.
    plain = [re.sub("[^a-z0-9]", "", label.lower().split("%")[0]) for label in labels]
    of_database = {"timelimit": "timelimitraw"} if _OF_DATABASE in plain else {}
    return [of_database.get(name) or _OTHER_NAMES.get(name, name) for name in plain]


def _known(names: Sequence[str]) -> int:
    return len(set(names) & set(READ))


def _is_state(fields: Sequence[str]) -> bool:
    """Return whether one of some fields is a state of Slurm, in full."""
    words = (field.strip(' \t\r"').split(" ")[0].rstrip("+") for field in fields)
    return any(len(word) > 2 and word in STATES for word in words)


def _number_the_rows(rows: Sequence[Sequence[str]]) -> bool:
    first = [row[0].strip(' \t"') for row in rows]
    return all(number.isdigit() for number in first) and len(set(first)) == len(first)


def _guessed(fields: Sequence[str]) -> Sequence[str]:
    """Return names for the fields of a row without header, _NOT_READ for those that say nothing."""
    fields = [field.strip(' \t\r"') for field in fields]
    moments = [n for n, text in enumerate(fields) if _ISO.match(text) or text == "Unknown"]
    if not moments:
        moments = [n for n, text in enumerate(fields) if re.fullmatch(r"1\d{9}", text)]
    states = [n for n, text in enumerate(fields) if _is_state([text])]
    if len(fields) == len(DOCUMENTED) and states[:1] == [5] and moments == [6, 7, 8, 9]:
        return DOCUMENTED
    lists = [n for n, text in enumerate(fields) if re.search(r"\bcpu=\d", text)]
    spans = [n for n, text in enumerate(fields) if _CLOCK.fullmatch(text)]
    times = {
        4: ("Submit", "Eligible", "Start", "End"),
        3: ("Submit", "Start", "End"),
    }.get(len(moments), ())
    found: dict[int, str] = {}
    for places, names in (
        ([n for n, text in enumerate(fields) if re.match(r"\d+([_+.]|$)", text)], ("JobID",)),
        (states, ("State",)),
        (moments, times),
        (spans, ("Elapsed", "Timelimit")),
        (lists, ("AllocTRES",) if len(lists) == 1 else ("ReqTRES", "AllocTRES")),
    ):
        for place, name in zip(places, names, strict=False):
            found.setdefault(place, name)
    return [found.get(place, _NOT_READ) for place in range(len(fields))]
