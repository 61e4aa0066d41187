"""Reader of the accounting log of PBS: OpenPBS, PBS Professional, Torque, and Cobalt's in its form.

The path is one file, plain or gzip-compressed. The server writes one file a day; join them in order
(`cat 202403* > march.log`). Names of files before the lines, as `grep ';E;' 2024*` prints them, are
dropped. A line is `DATE TIME;TYPE;ID;KEY=VALUE KEY=VALUE ...`:

    04/01/2024 00:00:12;E;123.server;user=ann group=users jobname=a queue=work ctime=1711929600
    qtime=1711929600 etime=1711929600 start=1711929660 exec_host=n1/0*8 Resource_List.ncpus=8
    Resource_List.walltime=01:00:00 end=1711933260 Exit_status=0 resources_used.walltime=01:00:00

(on one line). The record of type E, which is written when a job ends, has all that is known of the
job. Records of other types are counted and left out, and that of a whole array (`7[].server`). A
job that was deleted before it ran has no record of type E.

    column of the workload    from the first of these that the record has
    submit_s, eligible_s      ctime, qtime; etime
    duration_s                end - start; else resources_used.walltime
    requested_s               Resource_List.walltime
    requested_cores           Resource_List.ncpus; Resource_List.procs; Resource_List.select and
                              Resource_List.nodes, counted by ncpus and ppn
    allocated_cores           resources_used.ncpus; total_execution_slots; the slots of exec_host;
                              ncpus of exec_vnode
    memory_kb, times cores    Resource_List.mem; mem of Resource_List.select; pmem, times the
                              processors; vmem; pvmem; resources_used.mem
    memory_mib                as memory_kb, but null where only the used memory is known
    status                    Exit_status: 1 for 0, else 0
    user, group, account      user; group; account
    queue, executable         queue; jobname
    nodes                     Resource_List.nodect; the hosts of exec_host, of exec_vnode
    gpus                      ngpus of exec_vnode; Resource_List.ngpus, .naccelerators, .gpus; those
                              of Resource_List.select and .nodes
    gpus:TYPE                 gpu_type, gpu_model or accelerator_model beside the number

`qtime` is when the job came into its last queue: a job that moved between queues waited since
`ctime`, when it was created. A note has the number of such jobs.

A job that was rerun is its last run. The exit status does not tell whether a job was deleted while
it ran, so that no job has the status 5.

Sources: the PBS Professional Reference Guide 2021.1, chapter "Accounting"; the Torque Administrator
Guide 6.1, "Accounting records".
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.field_values import kilobytes, require_time_zone, span
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.job_logs import Field, JobLogSettings, sift_jobs, workload_of
from hindcast.pipeline.traces.text_rows import collect, scan_lines, split_fault
from hindcast.pipeline.workloads.schema import Workload

FORMAT: Final = "pbs"
DEFAULTS: Final = JobLogSettings()
LINE: Final = r"^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];[^;]*;"
_TWO_RECORDS: Final = r".\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Z];"
_EXPECTED: Final = "an accounting log of PBS (lines `DATE TIME;TYPE;ID;KEY=VALUE ...`)"
_WHAT: Final = "a record of an accounting log of PBS"
_KEYS: Final[Mapping[str, str]] = {
    "user": "user", "group": "group", "executable": "jobname", "queue": "queue", "ctime": "ctime",
    "qtime": "qtime", "eligible": "etime", "start": "start", "end": "end",
    "limit": r"Resource_List\.walltime", "used_s": r"resources_used\.walltime",
    "ncpus": r"Resource_List\.ncpus", "procs": r"Resource_List\.procs",
    "select": r"Resource_List\.select", "nodes": r"Resource_List\.nodes",
    "used_ncpus": r"resources_used\.ncpus", "slots": "total_execution_slots",
    "exec_host": "exec_host", "memory": r"Resource_List\.mem",
    "used_memory": r"resources_used\.mem", "exit": "Exit_status",
    "nodect": r"Resource_List\.nodect", "exec_vnode": "exec_vnode",
    "ngpus": r"Resource_List\.(?:ngpus|naccelerators|gpus)",
    "gpu_type": r"Resource_List\.(?:gpu_type|gpu_model|accelerator_model)",
    "pmem": r"Resource_List\.pmem", "vmem": r"Resource_List\.vmem",
    "pvmem": r"Resource_List\.pvmem", "location": r"resources_used\.location",
}  # fmt: skip
_GPU_TYPE: Final = "(?:gpu_?type|gpu_model|accelerator_model)"  # in a chunk of a select
_FILE_NAME: Final = r"^[^;\s]+:(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;)"  # before a record, by grep


def read(path: Path, settings: JobLogSettings = DEFAULTS) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a log and its bad rows (file, line, reason, text).

    Raises TraceError if the path is not such a log or has no job that ran.
    """
    require_time_zone(settings.time_zone, f"{path}: time_zone")
    first = next(line for line in head_lines(path, _EXPECTED) if line.strip())
    if ";" not in first:
        raise TraceError(f"{path}: the first line is {first[:60]!r}, expected {_EXPECTED}")
    records = _records(path)
    sifted = sift_jobs(path, records, _fields(), _WHAT, settings)
    return workload_of(path, FORMAT, sifted, settings, _moves(path, records))


def is_log(lines: Sequence[str]) -> bool:
    """Return whether one of the first lines is a record of such a log."""
    return any(re.match(LINE, re.sub(_FILE_NAME, r"\1", line)) for line in lines[:3])


def _moves(path: Path, records: pl.LazyFrame) -> list[str]:
    """Return a note with the number of jobs that came into their last queue after `ctime`."""
    created, queued = (pl.col(key).cast(pl.Float64, strict=False) for key in ("ctime", "qtime"))
    used = pl.col("reason").is_null() & pl.col("left_out").is_null()
    moved = int(collect(records.select((used & (queued > created)).sum()), path).item())
    return [f"qtime after ctime, from which waits are counted: {moved:,} rows"] if moved else []


def _records(path: Path) -> pl.LazyFrame:
    """Return the records of a log: line, text, reason, left_out, name, outcome and keys."""
    text = pl.col("text").str.replace(_FILE_NAME, "${1}")
    parts = text.str.splitn(";", 4).struct.rename_fields(["time", "kind", "name", "message"])
    rows = (
        scan_lines(path)
        .select("line", "text", parts=parts, reason=split_fault(pl.lit(4), 4, "part"))
        .unnest("parts")
        .select(
            "line",
            "text",
            "kind",
            job_id=pl.when(pl.col("name") != "").then("name"),
            account=pl.col("message")
            .str.extract(r'(?:^|\s)account=("[^"]*"|\S+)')
            .str.strip_chars('"'),
            # An account may have blanks and anything else in its quotes.
            message=pl.col("message").str.replace(r'(?:^|\s)account="[^"]*"', ""),
            reason="reason",
        )
    )
    left_out = (
        pl.when(pl.col("kind") != "E")
        .then(pl.format("a record of type {}, not E", "kind"))
        .when(pl.col("job_id").str.contains("[]", literal=True))
        .then(pl.lit("an array, whose jobs have records of their own"))
    )
    form = (
        pl.when(~text.str.contains(LINE))
        .then(pl.lit("the line is not of the form DATE TIME;TYPE;ID;MESSAGE"))
        .when(text.str.contains(_TWO_RECORDS))
        .then(pl.lit("two records in one line"))
    )
    values = {name: _value(key) for name, key in _KEYS.items()}
    rows = rows.with_columns(
        reason=pl.coalesce("reason", form),
        left_out=left_out,
        **{k: pl.when(v.is_in(["", "0"])).then(None).otherwise(v) if k in _ZERO else v
           for k, v in values.items()},
    )  # fmt: skip
    exit_status = pl.col("exit").cast(pl.Int64, strict=False)
    return rows.with_columns(
        outcome=pl.when(exit_status == 0)
        .then(pl.lit("completed"))
        .when(exit_status.is_not_null())
        .then(pl.lit("failed")),
        account=pl.when(pl.col("account") != "").then("account"),
        interrupted=pl.lit(value=False),
        gpu_types=_gpu_types(),
        # Cobalt lists blocks of nodes, not processors.
        exec_host=pl.when(pl.col("location").is_null()).then("exec_host"),
        lists_gpus=pl.any_horizontal(
            pl.col(key).is_not_null() for key in ("ncpus", "procs", "select", "nodes")
        ),
        memory_is_used=pl.all_horizontal(
            pl.col(key).is_null() for key in ("memory", "pmem", "vmem", "pvmem")
        )
        & _chunk_memory().is_null(),
    )


_ZERO: Final = ("ctime", "qtime", "eligible", "start", "end")  # 0 is unknown


def _value(key: str) -> pl.Expr:
    """Return the value of a key of the message, without quotes."""
    return pl.col("message").str.extract(rf'(?:^|\s){key}=("[^"]*"|\S+)').str.strip_chars('"')


def _fields() -> dict[str, Field]:
    """Return what is read of a record of PBS, by the names of the columns of job logs."""
    allocated = pl.coalesce("used_ncpus", "slots")
    allocated_cores = pl.coalesce(
        _whole(allocated), _slots(pl.col("exec_host")), _vnodes("ncpus", else_=1)
    )
    requested = pl.coalesce("ncpus", "procs")
    chunks = pl.coalesce(_chunks(pl.col("select"), "ncpus"), _chunks(pl.col("nodes"), "ppn"))
    requested_cores = pl.coalesce(_whole(requested), chunks)
    vnode_gpus = _vnodes("ngpus", else_=0)
    gpus = pl.coalesce(
        pl.when(vnode_gpus > 0).then(vnode_gpus),
        _whole(pl.col("ngpus")), _chunks(pl.col("select"), "ngpus", 0),
        _chunks(pl.col("nodes"), "gpus", 0),
    )  # fmt: skip
    hosts = pl.coalesce("exec_host", pl.col("exec_vnode").str.replace_all(r"[()]", ""))
    nodes = hosts.str.split("+").list.eval(pl.element().str.extract("^([^/:]+)"))
    return {
        "submit": _time("ctime, qtime", pl.coalesce("ctime", "qtime")),
        "eligible": _time("etime", pl.col("eligible")),
        "start": _time("start", pl.col("start")),
        "end": _time("end", pl.col("end")),
        "duration": _duration(),
        "limit": Field(
            "Resource_List.walltime", pl.col("limit"), span(pl.col("limit")), "a time span"
        ),
        "requested_cores": Field(
            "Resource_List.ncpus", pl.coalesce("ncpus", "procs", "select", "nodes"),
            requested_cores, "a number of processors",
        ),
        "allocated_cores": Field(
            "exec_host", pl.coalesce(allocated, "exec_host", "exec_vnode"), allocated_cores,
            "a number of processors",
        ),
        "memory_kb": _memory(pl.coalesce(
            pl.when(cores > 0).then(cores) for cores in (allocated_cores, requested_cores)
        )),
        "nodes": Field(
            "Resource_List.nodect", pl.col("nodect"),
            pl.coalesce(_whole(pl.col("nodect")), nodes.list.n_unique().cast(pl.Float64)),
            "a number of nodes",
        ),
        "gpus": Field("Resource_List.ngpus", pl.col("ngpus"), gpus, "a number of GPUs"),
    }  # fmt: skip


def _memory(cores: pl.Expr) -> Field:
    """Return the memory of the job, given its processors."""
    memory, pmem, vmem, pvmem, used = (
        kilobytes(pl.col(key), "b") for key in ("memory", "pmem", "vmem", "pvmem", "used_memory")
    )
    chunks = _chunk_memory()
    return Field(
        "Resource_List.mem",
        pl.coalesce("memory", chunks.cast(pl.String), "pmem", "vmem", "pvmem", "used_memory"),
        pl.coalesce(memory, chunks, pmem * cores, vmem, pvmem * cores, used),
        "an amount of memory",
    )


def _chunk_memory() -> pl.Expr:
    """Return the memory of the chunks of a select in KB, null if none has any."""
    chunk = pl.element()
    number = kilobytes(chunk.str.extract(r"(?:^|:)mem=([^:]+)"), "b")
    total = pl.col("select").str.split("+").list.eval(_count(chunk) * number).list.sum()
    return pl.when(pl.col("select").str.contains(r"(?:^|[:+])mem=")).then(total)


def _gpu_types() -> pl.Expr:
    """Return the GPUs that a job asked for by type, such as "a100:2,v100:4", null if by number."""
    chunk = pl.element()
    number = chunk.str.extract(r"(?:^|:)(?:ngpus|naccelerators)=(\d+)").cast(pl.Int64, strict=False)
    kind = chunk.str.extract(rf"(?:^|:){_GPU_TYPE}=([^:,]+)")
    of_chunk = pl.when(number > 0).then(pl.format("{}:{}", kind, _count(chunk) * number))
    of_chunks = pl.col("select").str.split("+").list.eval(of_chunk).list.drop_nulls()
    number = _whole(pl.col("ngpus"))
    return pl.coalesce(
        pl.when(of_chunks.list.len() > 0).then(of_chunks.list.join(",")),
        pl.when(number > 0).then(pl.format("{}:{}", "gpu_type", number)),
    )


def _time(label: str, text: pl.Expr) -> Field:
    return Field(label, text, text.cast(pl.Float64, strict=False), "seconds since 1970")


def _duration() -> Field:
    """Return the run time if `end` or `start` is missing; else it is their difference."""
    both = pl.col("start").is_not_null() & pl.col("end").is_not_null()
    text = pl.when(~both).then(pl.col("used_s"))
    return Field("resources_used.walltime", text, span(text), "a time span")


def _whole(text: pl.Expr) -> pl.Expr:
    return text.cast(pl.Int64, strict=False).cast(pl.Float64)


def _slots(text: pl.Expr) -> pl.Expr:
    """Return the processors of an exec_host such as `n1/0*8+n2/0*8`, `n1/0+n1/1` or `n1/0-7,9`."""
    host = pl.element()
    times = host.str.extract(r"\*(\d+)$").cast(pl.Int64, strict=False)
    item = pl.element()
    ends = item.str.extract_groups(r"^(\d+)(?:-(\d+))?$")
    low, high = (ends.struct.field(str(i)).cast(pl.Int64, strict=False) for i in (1, 2))
    listed = host.str.extract(r"/([\d,-]+)$").str.split(",").list.eval(high - low + 1)
    count = listed.list.eval(pl.element().fill_null(1)).list.sum()
    return text.str.split("+").list.eval(pl.coalesce(times, count, 1)).list.sum().cast(pl.Float64)


def _count(chunk: pl.Expr) -> pl.Expr:
    """Return how often a chunk such as `2:ncpus=8` or `n3:ppn=2` is asked for."""
    return chunk.str.extract(r"^(\d+)(?::|$)").cast(pl.Int64, strict=False).fill_null(1)


def _chunks(text: pl.Expr, key: str, else_: int = 1) -> pl.Expr:
    """Return the sum of a key over chunks such as `2:ncpus=8:mem=4gb+1:ncpus=4` or `2:ppn=8+n3`.

    `else_` is the number of a chunk without the key.
    """
    chunk = pl.element()
    number = chunk.str.extract(rf"(?:^|:){key}=(\d+)").cast(pl.Int64, strict=False)
    return (
        text.str.split("+")
        .list.eval(_count(chunk) * number.fill_null(else_))
        .list.sum()
        .cast(pl.Float64)
    )


def _vnodes(key: str, else_: int) -> pl.Expr:
    """Return the sum of a key over vnodes such as `(n1:ncpus=8:ngpus=2)+(n2:ncpus=4)`."""
    return _chunks(pl.col("exec_vnode").str.replace_all(r"[()]", ""), key, else_)
