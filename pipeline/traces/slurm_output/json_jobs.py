"""Rows of Slurm's accounting as JSON: `sacct --json`, and what slurmrestd answers for its jobs.

    {"meta": {...}, "jobs": [{"job_id": 1000, "state": {"current": ["COMPLETED"]}, ...}, ...]}

A file may have several such documents, a bare list of jobs, or a job a line. Versions of Slurm
write a value differently, and all of these are read:

    a number         240, or {"set": true, "infinite": false, "number": 240}
    a state          "COMPLETED", ["COMPLETED"], or {"current": "COMPLETED" or ["COMPLETED"]}
    resources        [{"type": "gres", "name": "gpu:a100", "id": 1002, "count": 4}, ...], or a text

Each job becomes a row with the columns that `sacct -P` has, as texts. The jobs are read one after
another, so that memory holds their rows alone: about 0.4 KB each, where the JSON has 5 KB or more.
"""

import codecs
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.files.compression import DAMAGED, content, readable
from hindcast.pipeline.traces.text_rows import TEXT_LIMIT

# Column of sacct -> where its value is in a job, the surest first. The second names are those of
# slurmrestd's /slurm/ and of `squeue --json`.
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "state": ("state", "job_state"),
    "submit": ("time.submission", "submit_time"),
    "eligible": ("time.eligible", "eligible_time"),
    "start": ("time.start", "start_time"),
    "end": ("time.end", "end_time"),
    "elapsedraw": ("time.elapsed",),
    "timelimitraw": ("time.limit", "time_limit"),
    "reqcpus": ("required.CPUs", "cpus"),
    "reqtres": ("tres.requested", "tres_req_str"),
    "alloctres": ("tres.allocated", "tres_alloc_str"),
    "allocnodes": ("allocation_nodes", "node_count"),
    "user": ("user", "association.user", "user_name"),
    "account": ("account", "association.account"),
    "group": ("group", "group_name"),
    "jobname": ("name",),
    "qos": ("qos",),
    "partition": ("partition",),
    "cluster": ("cluster",),
}
COLUMNS: Final = ("jobid", *_PATHS, "reqmem")
LABELS: Final[Mapping[str, str]] = {
    "jobid": "job_id",
    "reqmem": "required.memory_per_cpu",
    **{name: paths[0] for name, paths in _PATHS.items()},
}
_FIRST_NAMES: Final = ("job_id", "slurm", "Slurm")  # one of them is in the first lines
_EXPECTED: Final = "the output of `sacct --json`"
_BEGIN: Final = 4096  # bytes, in which blanks may stand before the JSON
_BLOCK: Final = 1 << 20  # characters read at once
_LONGEST_JOB: Final = 64 << 20  # characters; a job with all its steps has some thousand
_LONGEST_WORD: Final = 8  # characters that are no value before their last: `false`, `\\u00e9`
_BATCH: Final = 20_000  # jobs turned into rows at once
_SPACE: Final = re.compile(r"[\s,]*")
_SPACES: Final = re.compile(r"\s*")
_PER_CPU: Final = 1 << 63
_LARGEST: Final = 2**64
_UNLIMITED: Final = "UNLIMITED"
_NOT_SET: Final = "Partition_Limit"  # what sacct prints for a time limit that is not set
_NONE: Final = (2**32 - 2, 2**64 - 2)
_INFINITE: Final = (2**32 - 1, 2**64 - 1)


def is_json(lines: Sequence[str]) -> bool:
    """Return whether the first of some lines is the beginning of JSON as Slurm writes it."""
    begin = "".join(lines)
    return begin.lstrip().startswith(("{", "[")) and any(f'"{n}"' in begin for n in _FIRST_NAMES)


def begins(path: Path) -> bool:
    """Return whether a file, plain or compressed, begins as JSON does."""
    try:
        with content(path) as file:
            begin = file.read(_BEGIN)
    except DAMAGED:
        return False  # left to the reader of lines, which says why
    return begin.removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"{", b"["))


def scan_json(path: Path) -> pl.LazyFrame:
    """Return the jobs of a file as rows: line, text, COLUMNS, reason.

    `line` is that at which a job begins; where jobs share a line, the next number that is free.
    A file that ends within a job has a last row with that as its reason. Raises TraceError if the
    file is no such JSON, or is damaged before its end.
    """
    frames: list[pl.DataFrame] = []
    rows: list[tuple[Any, ...]] = []
    kinds = {"line": pl.Int64, "text": pl.String, **dict.fromkeys(COLUMNS, pl.String)}
    schema = {**kinds, "reason": pl.String}
    number = 0
    for line, job in _jobs(path):
        number = max(number + 1, line)
        if isinstance(job, dict):
            rows.append((number, "", *_texts(job), None))
        else:
            text = job if isinstance(job, str) else json.dumps(job)
            reason = _CUT if isinstance(job, _Cut) else "this is no JSON object, expected a job"
            rows.append((number, text[:TEXT_LIMIT], *[None] * len(COLUMNS), reason))
        if len(rows) == _BATCH:
            frames.append(pl.DataFrame(rows, schema=schema, orient="row"))
            rows = []
    frames.append(pl.DataFrame(rows, schema=schema, orient="row"))
    found = pl.concat(frames)
    if found.is_empty():
        raise TraceError(f"{path}: this JSON has no jobs, expected {_EXPECTED}")
    # Bad rows show what was read, since a job of JSON is many lines.
    shown = pl.concat_str([pl.col(n).fill_null("") for n in COLUMNS], separator="|")
    return found.lazy().with_columns(
        text=pl.when(pl.col("text") == "").then(shown).otherwise("text")
    )


class _Cut(str):
    """Text of a job that the file ends in."""

    __slots__ = ()


_CUT: Final = "the file ends within this job"


class _Reader:
    """JSON values of a file one after another, in memory for one of them."""

    def __init__(self, file: TextIOWrapper, path: Path) -> None:
        self._file, self._path = file, path
        self._text, self._at, self._ended = "", 0, False
        self._line, self._counted = 1, 0  # the line at a place in `_text`
        self._decoder = json.JSONDecoder(parse_constant=lambda _: None)

    def peek(self, skipped: re.Pattern[str] = _SPACES) -> str:
        """Return the next character behind the `skipped` ones; "" at the end."""
        while True:
            match = skipped.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def line(self) -> int:
        """Return the line of the next character."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def take(self) -> None:
        """Go on by the character that `peek` returned."""
        self._at += 1

    def value(self) -> Any:
        """Return the next value; a _Cut if the file ends in it. Raises TraceError if it is none."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                unfinished = error.msg.startswith("Unterminated string")
                if not unfinished and error.pos < len(self._text) - _LONGEST_WORD:
                    raise self.fault(error.pos, error.msg) from error
                if len(self._text) - self._at > _LONGEST_JOB:
                    raise self.fault(self._at, "a value of this length") from error
                if self._more():
                    continue
                rest, self._at = self._text[self._at :], len(self._text)
                return _Cut(rest)
            except (RecursionError, ValueError) as error:  # too deep, or too many digits
                raise self.fault(self._at, str(error)) from error
            # A number at the end of the text may go on behind it.
            if end < len(self._text) or not self._more():
                self._at = end
                return value

    def fault(self, at: int, what: str) -> TraceError:
        """Return the error for a fault at a place in the text."""
        line = self._line + self._text.count("\n", self._counted, at)
        return TraceError(
            f"{self._path}: line {line} is no JSON ({what}), expected {_EXPECTED}; "
            "was the file damaged?"
        )

    def unexpected(self, expected: str) -> TraceError:
        """Return the error for a character that cannot be where it is."""
        return self.fault(self._at, f"{self.peek()!r} where {expected} should be")

    def _more(self) -> bool:
        """Read on, and forget what was read before; return whether there was more."""
        block = "" if self._ended else self._file.read(max(_BLOCK, len(self._text) - self._at))
        self._ended = not block
        if block:
            self.line()
            self._text, self._at, self._counted = self._text[self._at :] + block, 0, 0
        return bool(block)


def _jobs(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the jobs of a file, each with its line: objects, or what else is in their place."""
    with readable(path), content(path) as raw:
        reader = _Reader(TextIOWrapper(raw, "utf-8-sig", errors="replace"), path)
        while begin := reader.peek(_SPACE):
            if begin == "[":
                yield from _elements(reader)
            elif begin == "{":
                yield from _document(reader)
            else:
                raise reader.unexpected("'{' or '['")


def _elements(reader: _Reader) -> Iterator[tuple[int, Any]]:
    """Yield the elements of a list, each with its line."""
    reader.take()
    while (following := reader.peek()) != "]":
        if not following:
            return
        yield reader.line(), reader.value()
        if reader.peek() == ",":
            reader.take()
        elif reader.peek() not in {"]", ""}:
            raise reader.unexpected("',' or ']'")
    reader.take()


def _document(reader: _Reader) -> Iterator[tuple[int, Any]]:
    """Yield the jobs of a document, each with its line: the list "jobs", else the document."""
    line = reader.line()
    reader.take()
    others: dict[str, Any] = {}
    has_jobs = False
    while (following := reader.peek()) != "}":
        if following != '"':
            if following:
                raise reader.unexpected("a name in quotes")
            break
        name = reader.value()
        if reader.peek() != ":":
            if reader.peek():
                raise reader.unexpected("':'")
            break
        reader.take()
        if name == "jobs" and reader.peek() == "[":
            has_jobs = True
            yield from _elements(reader)
        else:
            others[name] = reader.value()
        if reader.peek() == ",":
            reader.take()
        elif reader.peek() not in {"}", ""}:
            raise reader.unexpected("',' or '}'")
    is_whole = reader.peek() == "}"
    reader.take()
    if not has_jobs and "job_id" in others:
        yield line, others if is_whole else _Cut(json.dumps(others, default=str))


def _texts(job: Mapping[str, Any]) -> list[str | None]:
    """Return the texts of COLUMNS of a job."""
    texts: dict[str, str | None] = {}
    for column, paths in _PATHS.items():
        values = (_at(job, path) for path in paths)
        texts[column] = next((text for value in values if (text := _text(column, value))), None)
    return [_job_id(job), *texts.values(), _memory(job)]


def _at(job: Any, path: str) -> Any:
    """Return the value at a path such as `time.start`; None if there is none."""
    for name in path.split("."):
        job = job.get(name) if isinstance(job, dict) else None
    return job


def _text(column: str, value: Any) -> str | None:
    """Return a value as sacct prints it in a column; None if it is not known."""
    if column in {"reqtres", "alloctres"} and isinstance(value, list):
        return _tres(value)
    if column == "state":
        value = value.get("current") if isinstance(value, dict) else value
        value = next(iter(value), None) if isinstance(value, list) else value
    if column == "timelimitraw":
        if isinstance(value, dict) and (value.get("infinite") is True or not _is_set(value)):
            return _UNLIMITED if value.get("infinite") is True else _NOT_SET
        number = _number(value)
        if number in _INFINITE or number in _NONE:
            return _UNLIMITED if number in _INFINITE else _NOT_SET
    if isinstance(value, dict):
        value = _number(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    # JSON can name half of a character, which no text has.
    return None if value in _NONE else str(value).encode(errors="replace").decode()


def _is_set(value: Mapping[str, Any]) -> bool:
    return value.get("set") is not False and value.get("number") is not None


def _number(value: Any) -> int | float | None:
    """Return a number of any version; None if it is not set."""
    if isinstance(value, dict):
        value = value["number"] if _is_set(value) and value.get("infinite") is not True else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) <= _LARGEST else None


def _tres(entries: list[Any]) -> str | None:
    """Return a list of resources as sacct prints it: `cpu=4,mem=4096,gres/gpu=2`."""
    parts = []
    for entry in entries:
        if not isinstance(entry, dict) or (count := _number(entry.get("count"))) is None:
            continue
        kind, name = entry.get("type"), entry.get("name")
        label = f"{kind}/{name}" if kind and name else kind or entry.get("id")
        if count >= 0:
            parts.append(f"{label}={count:.0f}")
    return ",".join(parts) or None


def _job_id(job: Mapping[str, Any]) -> str | None:
    """Return the number of a job as sacct prints it: 5, 5_1 of an array, 6+1 of a het job."""
    own = _number(job.get("job_id"))
    for whole, parent, part, sign in (
        ("array.job_id", "array_job_id", ("array.task_id", "array.task", "array_task_id"), "_"),
        ("het.job_id", "het_job_id", ("het.job_offset", "het_job_offset"), "+"),
    ):
        first = _number(_at(job, whole)) or _number(job.get(parent))
        parts = (_number(_at(job, path)) for path in part)
        place = next((number for number in parts if number is not None), None)
        if first and place is not None and place not in _NONE:
            return f"{first:.0f}{sign}{place:.0f}"
    return None if own is None else f"{own:.0f}"


def _memory(job: Mapping[str, Any]) -> str | None:
    """Return the requested memory as sacct prints it: `4000Mc` per processor, `4Mn` per node."""
    for unit, paths in (
        ("Mc", ("required.memory_per_cpu", "memory_per_cpu")),
        ("Mn", ("required.memory_per_node", "memory_per_node")),
    ):
        for path in paths:
            amount = _number(_at(job, path))
            if amount and amount not in _NONE and amount not in _INFINITE:
                return f"{amount:.0f}{unit}"
    amount = _number(_at(job, "required.memory"))
    if amount is None or amount in _NONE:
        return None
    per_cpu = amount >= _PER_CPU
    return f"{int(amount) - _PER_CPU}Mc" if per_cpu else f"{amount:.0f}Mn"
