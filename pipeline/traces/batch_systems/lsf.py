"""Reader of the accounting log of LSF: lsb.acct, and CSV files with its fields.

A record of lsb.acct is a line of fields separated by blanks, strings in quotes and quotes in them
doubled. Records of type JOB_FINISH are jobs that ended; others are counted and left out. Strings
may have line breaks. The fields after the first 30 depend on the version: those that a record lacks
are unknown. Files of versions 9.1 and 10.1 differ from the manual before avgMem, see `limit`. A CSV
file has a header with the names of the fields, in any order and spelling, such as jobId, userName,
numProcessors, submitTime, startTime, eventTime (or endTime) and jStatus.

    column of the workload    from
    job_id                    jobId; JOB[IDX] for an element of an array
    submit_s, start           submitTime; startTime
    eligible_s                beginTime (bsub -b), or ineligiblePendTime after the submission
    duration_s                event time (the end) - startTime; else runTime
    requested_s               runLimit, s; else termTime - startTime; -1 is no limit
    requested_cores           numProcessors
    allocated_cores           numAllocSlots; the slots of execHosts ("4*host" or a name a slot)
    memory_kb, times cores    mem of rusage[] in effectiveResReq, else in resReq, MB unless it has a
    and memory_mib            unit; for each host, unless it ends in /task or /job
    gpus                      ngpus_physical, ngpus_excl_p, ngpus_shared or ngpus there, likewise;
                              0 if the record has a requirement without one
    gpus:TYPE                 gmodel there
    nodes                     hosts of execHosts
    status                    1 DONE (64); EXIT (32) is 5 if exitInfo says that its owner or an
                              administrator killed it, else 0
    user, account             userName; projectName
    queue, executable         queue; jobName

Where fewer slots than numProcessors are listed in execHosts, these are hosts. A job that was killed
before it started is left out. A job that was requeued is its last run.

Sources: lsb.acct(5) of Platform LSF 6.2, 8.0 and 9.1.2 and of IBM Spectrum LSF 10.1.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

import polars as pl

from hindcast.pipeline.traces.batch_systems.records import (
    Record,
    csv_records,
    names_of,
    numbered_lines,
    rows_of,
)
from hindcast.pipeline.traces.field_values import (
    is_local,
    kilobytes,
    looked_up,
    moment,
    require_time_zone,
    span,
)
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.job_logs import Field, JobLogSettings, sift_jobs, workload_of
from hindcast.pipeline.workloads.schema import Workload

FORMAT: Final = "lsf"
_EXPECTED: Final = (
    'the accounting log of LSF, lsb.acct (lines `"JOB_FINISH" "10.1" ...`), or a CSV file with the '
    "names of its fields"
)
_WHAT: Final = "a record of lsb.acct"
_BEGIN: Final = re.compile(r'"([A-Z_]+)" "[\d.]+" \d+ ')
_TOKEN: Final = re.compile(r'"(?:[^"]|"")*"|\S+')
_INTEGER: Final = re.compile(r"-?\d{1,15}")
_MOST_LINES: Final = 1000  # of a string in one record


def _order(fields: str) -> list[tuple[str, str]]:
    """Return names and kinds of fields in their order.

    A kind is a string in quotes (s), a number (n), either (a), so many numbers, or a list with so
    many fields an entry.
    """
    return [(name, kind) for name, _, kind in (field.partition(":") for field in fields.split())]


_FIRST: Final = _order(
    "type:s version:s eventtime:n jobid:n userid:n options:n numprocessors:n submittime:n "
    "begintime:n termtime:n starttime:n username:s queue:s resreq:s dependcond:s preexeccmd:s "
    "fromhost:s cwd:s infile:s outfile:s errfile:s jobfile:s"
)  # then the hosts to which the job was limited, and those on which it ran
_SECOND: Final = _order(
    "jstatus:n hostfactor:n jobname:s command:s rusage:19 mailuser:s projectname:s exitstatus:n "
    "maxnumprocessors:n loginshell:s timeevent:s idx:n maxrmem:n maxrswap:n infilespool:s "
    "commandspool:s rsvid:s sla:s exceptmask:n additionalinfo:s exitinfo:n warningaction:s "
    "warningtimeperiod:n chargedsaap:s licenseproject:s app:s postexeccmd:s runtimeestimation:n "
    "jobgroupname:s requeueevalues:s options2:n resizenotifycmd:s lastresizetime:n rsvid2:s "
    "jobdescription:s submitext:list2"
)  # then the usage on each host, the limit and options
_THIRD: Final = _order(
    "avgmem:n effectiveresreq:s srccluster:s srcjobid:n dstcluster:s dstjobid:n forwardtime:n "
    "flowid:a acjobwaittime:n totalprovisiontime:n outdir:s runtime:n subcwd:s networks:list2 "
    "affinity:s energy:n cpi:n gips:n gbs:n gflops:n"
)  # then the allocated slots
_LAST: Final = _order("ineligiblependtime:n")
_OPTIONS: Final = 1 << 22  # a larger number is one of options, not a limit in s
_KEYS: Final = (
    "jobid", "idx", "jstatus", "numprocessors", "numallocslots", "slots", "hosts", "submittime",
    "begintime", "termtime", "starttime", "eventtime", "runtime", "runlimit", "username", "queue",
    "projectname", "jobname", "exitinfo", "ineligiblependtime", "resreq", "effectiveresreq",
    "memory", "memory_of", "gpus", "gpus_of", "gpu_model", "has_requirement",
)  # fmt: skip
# Names of columns of CSV files -> fields.
_SPELLINGS: Final[Mapping[str, str]] = {
    **{key: key for key in _KEYS},
    "job": "jobid", "arrayindex": "idx", "jobindex": "idx", "index": "idx",
    "status": "jstatus", "stat": "jstatus", "jobstatus": "jstatus", "numslots": "numprocessors",
    "nprocs": "numprocessors", "nreqslot": "numprocessors", "allocslots": "numallocslots",
    "dispatchtime": "starttime", "endtime": "eventtime", "finishtime": "eventtime",
    "user": "username", "queuename": "queue", "project": "projectname", "name": "jobname",
    "effectiveresourcerequirement": "effectiveresreq", "exechosts": "hosts", "exechost": "hosts",
}  # fmt: skip
_NEEDED: Final = ("jobid", "submittime", "starttime", "eventtime", "numprocessors")
_OUTCOMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("64", "192", "DONE"), "completed"),
    **dict.fromkeys(("32", "160", "EXIT"), "failed"),
    **dict.fromkeys(("1", "2", "PEND", "PSUSP", "WAIT"), "waiting"),
    **dict.fromkeys(("4", "8", "16", "RUN", "SSUSP", "USUSP"), "running"),
}
# Values of exitInfo: killed by its owner or an administrator; preempted or requeued.
_KILLED: Final = ("8", "9", "14", "15", "23")
_AGAIN: Final = ("1", "10", "11")
_USAGE: Final = re.compile(r"rusage\[([^\]]*)\]")
_MEMORY: Final = re.compile(r"(?:^|[:,\s])mem=(\d+(?:\.\d+)?[KMGTP]?)B?(?:/(host|task|job))?")
_GPUS: Final = re.compile(
    r"(?:^|[:,\s])ngpus(?:_physical|_excl_p|_excl_t|_shared)?=(\d+(?:\.\d+)?)(?:/(host|task|job))?"
)
_MODEL: Final = re.compile(r"(?:^|[:,\s])gmodel=([\w.]+)")
_SEVERAL: Final = re.compile(r"\d+\s*\*\s*\{")  # a compound requirement


@dataclass(frozen=True)
class LsfSettings(JobLogSettings):
    """Facts about a cluster that its accounting log does not tell.

    Attributes:
        memory_of: What a requirement of memory without /host, /task or /job is for: "host", or
            "slot" where RESOURCE_RESERVE_PER_TASK is Y.
        gpus_of: What such a requirement of GPUs is for: "host", or "slot" where GPU_REQ_PER_TASK
            is Y.
    """

    memory_of: Literal["host", "slot"] = "host"
    gpus_of: Literal["host", "slot"] = "host"


DEFAULTS: Final = LsfSettings()


def read(path: Path, settings: LsfSettings = DEFAULTS) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a log and its bad rows (file, line, reason, text).

    Raises TraceError if the path is not such a log or has no job that ran.
    """
    require_time_zone(settings.time_zone, f"{path}: time_zone")
    lines = [line for line in head_lines(path, _EXPECTED) if line.strip()]
    if lines[0].lstrip().startswith('"') and "," not in lines[0][:20]:
        records = _of_acct(path)
    else:
        records = _of_csv(path)
    fields = _fields(settings)
    gpus = fields["gpus"].value
    rows = _with_outcome(rows_of(records, _KEYS)).with_columns(
        lists_gpus=pl.col("has_requirement").is_not_null(),
        gpu_types=pl.when(gpus > 0).then(pl.format("{}:{}", "gpu_model", gpus)),
    )
    no_limit = pl.col("runlimit").cast(pl.Float64, strict=False) <= 0
    sifted = sift_jobs(path, rows, fields, _WHAT, settings, no_limit=no_limit)
    return workload_of(path, FORMAT, sifted, settings)


def is_log(lines: Sequence[str]) -> bool:
    """Return whether the first of some lines is a record of such a log, or a header of its fields.

    The header has to name jobId, numProcessors and submitTime, as tables of other systems do not.
    """
    begin = _BEGIN.match(lines[0])
    if begin:
        return begin[1] in {"JOB_FINISH", "EVENT_ADRSV_FINISH", "JOB_RESIZE"}
    return {"jobid", "numprocessors", "submittime", "starttime"} <= set(names_of(lines[0]))


def _of_acct(path: Path) -> Iterator[Record]:
    """Yield the records of lsb.acct."""
    record: Record | None = None
    texts: list[str] = []
    for line in numbered_lines(path):
        continues = (
            record is not None
            and not _BEGIN.match(line.text)
            and len(texts) < _MOST_LINES
            and sum(text.count('"') for text in texts) % 2
        )
        if not continues:
            if record is not None:
                yield _of_texts(record, texts)
            record, texts = Record(line.number, line.text, reason=line.reason), []
        texts.append(line.text)
    if record is not None:
        yield _of_texts(record, texts)


def _of_texts(record: Record, texts: Sequence[str]) -> Record:
    """Return a record of lsb.acct with the values of its fields."""
    begin = _BEGIN.match(texts[0])
    if begin is None:
        record.reason = record.reason or "the line does not begin as a record of lsb.acct"
    elif begin[1] != "JOB_FINISH":
        record.left_out = f"a record of type {begin[1]}, not JOB_FINISH"
    else:
        tokens = _Tokens(_TOKEN.findall("\n".join(texts)))
        record.values = tokens.read(_FIRST)
        if len(record.values) < len(_FIRST):
            record.reason = record.reason or (
                f"the record breaks off or has another field in place {tokens.place + 1}"
            )
        else:
            tokens.hosts()  # to which the job was limited
            if (hosts := tokens.hosts()) is not None:
                record.values |= _slots(hosts)
            record.values |= tokens.read(_SECOND)
            if "submitext" in record.values and (limit := tokens.limit()) is not None:
                record.values |= {"runlimit": limit, **tokens.read(_THIRD)}
            if "gflops" in record.values:
                record.values["numallocslots"] = _slots(tokens.hosts() or [])["slots"]
                record.values |= tokens.read(_LAST)
            record.values |= _asked(record.values)
            if "idx" not in record.values or sum(text.count('"') for text in texts) % 2:
                record.reason = record.reason or "the record breaks off"
    return record


class _Tokens:
    """The fields of a record as text, and the place of the next one."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.place = 0

    def read(self, fields: Sequence[tuple[str, str]]) -> dict[str, str | None]:
        """Return the values of the next fields, up to the first that is none of its kind."""
        values: dict[str, str | None] = {}
        for name, kind in fields:
            value = self._next(kind)
            if value is None:
                break
            values[name] = value
            if kind.isdigit():
                self.place += int(kind) - 1
            elif kind.startswith("list"):
                self.place += int(kind[4:]) * _whole(value)
        return values

    def limit(self) -> str | None:
        """Read the usage on each host and what follows it; return the limit, "-1" for none.

        An entry has six fields in files, but five in the manual. Then come runLimit and options3 in
        files, and options3 and runLimit in the manual: one is -1 or 0, or large enough for options.
        """
        hosts = self._next("n")
        for size in (6, 5):
            place = self.place + size * _whole(hosts or "")
            numbers, after = self.tokens[place : place + 3], self.tokens[place + 3 : place + 4]
            if all(map(_INTEGER.fullmatch, numbers)) and after and after[0].startswith('"'):
                self.place = place + 2
                known = [int(text) for text in numbers[:2]]
                limits = [number for number in known if 0 < number < _OPTIONS]
                return str(limits[0] if limits and -1 not in known else -1)
        return None

    def hosts(self) -> list[str] | None:
        """Return the next list of hosts; None, without reading it, if there is none."""
        if self.place >= len(self.tokens) or self.tokens[self.place].startswith('"'):
            return None
        number = _whole(self.tokens[self.place])
        hosts = self.tokens[self.place + 1 : self.place + 1 + number]
        if len(hosts) < number or not all(host.startswith('"') for host in hosts):
            return None
        self.place += 1 + number
        return [host.strip('"') for host in hosts]

    def _next(self, kind: str) -> str | None:
        """Return the next field; None if there is none, or it is of another kind."""
        if self.place >= len(self.tokens):
            return None
        token = self.tokens[self.place]
        quoted = token.startswith('"')
        if (kind != "a" and quoted != (kind == "s")) or (quoted and not token[1:].endswith('"')):
            return None
        self.place += 1
        return token[1:-1].replace('""', '"') if quoted else token


def _whole(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,6}", text) else 0


def _slots(hosts: Sequence[str]) -> dict[str, str | None]:
    """Return the number of slots and of hosts of a list such as ["4*n1", "n2"]."""
    counts = [host.partition("*") for host in hosts]
    slots = sum(_whole(number) if star else 1 for number, star, _ in counts)
    names = {name if star else number for number, star, name in counts}
    return {"slots": str(slots) if hosts else None, "hosts": str(len(names)) if hosts else None}


def _of_csv(path: Path) -> Iterator[Record]:
    """Yield the records of a CSV file with the fields of lsb.acct."""
    for record in csv_records(path, _SPELLINGS, _NEEDED, _EXPECTED):
        hosts = record.values.pop("hosts", None) or ""
        record.values |= _slots(re.findall(r"[^\s:,;\[\]]+", hosts))
        record.values |= _asked(record.values)
        yield record


def _asked(values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the memory and the GPUs that a job asked for."""
    texts = [values.get(key) for key in ("effectiveresreq", "resreq")]
    known = [text for text in texts if text is not None]
    return {
        "has_requirement": "1" if known else None,
        **_requirement(next(filter(None, known), "")),
    }


@lru_cache(maxsize=4096)
def _requirement(text: str) -> dict[str, str | None]:
    """Return memory and GPUs of a resource requirement; the first of alternatives counts."""
    if _SEVERAL.search(text):  # parts of the job with requirements of their own
        return {"memory": text[:40] if "mem=" in text else None}
    found: dict[str, str | None] = {}
    for usage in _USAGE.findall(text):
        for name, pattern in (("memory", _MEMORY), ("gpus", _GPUS)):
            if name not in found and (match := pattern.search(usage)):
                found |= {name: match[1], f"{name}_of": match[2]}
        if "gpu_model" not in found and (model := _MODEL.search(usage)):
            found["gpu_model"] = model[1]
    return found


def _with_outcome(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the name and the outcome of jobs, and the names of users and queues."""
    times = ("submittime", "begintime", "termtime", "starttime", "eventtime")
    rows = rows.with_columns(
        **{key: pl.when(pl.col(key) != "0").then(pl.col(key)) for key in times},
        idx=pl.when(pl.col("idx") != "0").then("idx"),
    )
    outcome = looked_up(pl.col("jstatus").str.to_uppercase(), _OUTCOMES)
    killed = pl.col("exitinfo").is_in(_KILLED)
    element = pl.format("{}[{}]", "jobid", "idx")
    return rows.with_columns(
        job_id=pl.coalesce(element, "jobid"),
        outcome=pl.when(killed & (outcome == "failed"))
        .then(pl.lit("cancelled"))
        .otherwise(outcome),
        interrupted=pl.col("exitinfo").is_in(_AGAIN).fill_null(value=False),
        user="username",
        account="projectname",
        executable="jobname",
    )


def _fields(settings: LsfSettings) -> dict[str, Field]:
    """Return what is read of an event of LSF, by the names of the columns of job logs."""
    times = {"submit": "submittime", "start": "starttime", "end": "eventtime"}
    moments = {
        key: moment(pl.col(key), settings.time_zone)
        for key in (*times.values(), "begintime", "termtime")
    }
    fields = {
        name: Field(key, pl.col(key), moments[key], "a time", is_local(pl.col(key)))
        for name, key in times.items()
    }
    pending = pl.col("ineligiblependtime").cast(pl.Float64, strict=False)
    later = moments["submittime"] + pl.when(pending > 0).then(pending)
    known = pl.max_horizontal(moments["begintime"], later)
    eligible = pl.when(known.is_not_null()).then(pl.max_horizontal(moments["submittime"], known))
    both = pl.col("starttime").is_not_null() & pl.col("eventtime").is_not_null()
    run = pl.when(~both).then(pl.col("runtime"))
    limit_s = span(pl.col("runlimit"))
    until = moments["termtime"] - moments["starttime"]
    asked, listed, allocated = (
        pl.col(key).cast(pl.Float64, strict=False)
        for key in ("numprocessors", "slots", "numallocslots")
    )
    # With SHORT_EVENTFILE, numAllocSlots is the number of hosts, and execHosts has "4*host".
    slots = pl.max_horizontal(
        pl.when(allocated > 0).then(allocated), pl.when(listed >= asked).then(listed)
    )
    held = pl.coalesce(slots, asked)
    hosts = pl.col("hosts").cast(pl.Float64, strict=False).fill_null(1)

    def of_job(name: str, value: pl.Expr, default: str) -> pl.Expr:
        of = pl.col(f"{name}_of").fill_null(default)
        times = pl.when(of == "host").then(hosts).when(of == "job").then(1.0).otherwise(held)
        return value * times

    memory = of_job("memory", kilobytes(pl.col("memory"), "m"), settings.memory_of)
    gpus = of_job("gpus", pl.col("gpus").cast(pl.Float64, strict=False), settings.gpus_of)
    return {
        **fields,
        "eligible": Field("beginTime", eligible.cast(pl.String), eligible, "a time"),
        "duration": Field("runTime", run, span(run), "a number of seconds"),
        "limit": Field(
            "runLimit",
            pl.when(limit_s.is_null()).then("runlimit"),
            pl.coalesce(pl.when(limit_s > 0).then(limit_s), pl.when(until > 0).then(until)),
            "a number of seconds",
        ),
        "requested_cores": Field(
            "numProcessors", pl.col("numprocessors"), asked, "a number of processors"
        ),
        "allocated_cores": Field("execHosts", pl.col("slots"), slots, "a list of hosts"),
        "memory_kb": Field("resReq", pl.col("memory"), memory, "an amount of memory"),
        "nodes": Field(
            "execHosts", pl.col("hosts"), pl.col("hosts").cast(pl.Float64), "a list of hosts"
        ),
        "gpus": Field("resReq", pl.col("gpus"), gpus, "a number of GPUs"),
    }
