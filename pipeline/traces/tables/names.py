"""Names of columns of real tables, by what is read from them.

A name is compared without case and separators: ElapsedRaw is elapsed_raw. It may end in a unit
(submit_time_ms). A name that is not a usual one is compared by its words, without those that only
qualify it: sim_job_submit_time is about submission, num_gpus_alloc about GPUs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hindcast.pipeline.traces.job_logs import NAMES
from hindcast.pipeline.traces.tables.mapping import COLUMNS, DATES, DEADLINE, MEMORY

# Usual names, without unit, the surest first.
USUAL: Final[Mapping[str, str]] = {
    "job_id": "job_id jobid job id job_number job_nr jobnr jobidraw id_job jid task_id taskid pod "
    "pod_name name",
    "submit": "submit submit_time submitted submitted_at submission submission_time time_submit "
    "queued queued_at queue_time created created_at create_time creation_time "
    "creation_timestamp arrival arrival_time adt subtime qtime ctime time timestamp",
    "eligible": "eligible eligible_time time_eligible etime",
    "start": "start start_time time_start started started_at starttime starting_time begin "
    "begin_time dispatched scheduled_time sdt",
    DEADLINE: "deadline deadline_time due due_at due_date due_time must_end_by",
    "end": "end end_time time_end ended ended_at endtime finish finished finished_at finish_time "
    "stop completed_at completion_time deletion_time edt",
    "duration": "duration run_time runtime run elapsed elapsed_time elapsedraw execution_time "
    "wallclock ru_wallclock used_walltime walltime_used length elpl",
    "time_limit": "time_limit timelimit timelimit_raw limit wallclock_req requested_time walltime "
    "wall_time walltime_req requested_walltime req_walltime max_runtime estimate wallclock "
    "resource_list_walltime elpl",
    "cores": "cores cpus ncpus n_cores num_cores num_cpus num_cores_alloc alloc_cpus alloccpus "
    "allocated_cores cpu slots processors procs cpu_count cpu_num cpu_request cpu_requests "
    "requested_cpu cnumat",
    "requested_cores": "requested_cores req_cpus reqcpus processors_req cpus_req requested_cpus "
    "cores_req req_cores num_cores_req requested_number_of_resources cnumr",
    MEMORY: "memory mem mem_req req_mem reqmem req_mem_total requested_memory memory_req ram "
    "memory_request memory_requests mem_request mem_alloc plan_mem mszl",
    "state": "state status job_state job_status outcome result exit_state phase pod_phase success "
    "exit_status exit_code",
    "user": "user user_id userid username user_name owner uid id_user usr",
    "group": "group group_id gid id_group namespace",
    "account": "account account_name project",
    "executable": "executable job_name jobname name command application app jnam",
    "queue": "queue queue_name class",
    "partition": "partition partition_name vc virtual_cluster",
    "qos": "qos",
    "cluster": "cluster cluster_name",
    "nodes": "nodes nodes_alloc alloc_nodes num_nodes n_nodes nnodes node_count nodes_req reqnodes "
    "node_num nnumr",
    "gpus": "gpus num_gpus num_gpu gpu_num n_gpus ngpus gpu_count num_gpus_alloc num_gpus_req gpu",
    "gpu_type": "gpu_type gpu_model gpu_spec gpu_kind accelerator_type",
    "gpu_share": "gpu_milli",
}
# Words by which a name is known that is not a usual one.
_WORDS: Final[Mapping[str, str]] = {
    "submit": "submit submitted submission arrival arrive created creation submittime queue queued",
    "eligible": "eligible",
    "start": "start started starting begin began starttime",
    "end": "end ended finish finished completion completed stop endtime",
    "duration": "duration runtime run elapsed execution walltime wallclock",
    "time_limit": "limit timelimit",
    "cores": "core cores cpu cpus processor processors proc procs ncpus ncores vcpu vcpus",
    MEMORY: "mem memory ram",
    "nodes": "node nodes nnodes host hosts nhosts",
    "gpus": "gpu gpus ngpus",
    "state": "state status",
    "user": "user username",
    "group": "group",
    "account": "account project",
    "partition": "partition",
    "queue": "queue",
    "qos": "qos",
    "job_id": "id jobid",
}
_REQUESTED: Final = frozenset({"req", "requested", "request", "requests", "plan", "asked"})
_QUALIFIERS: Final = _REQUESTED | {
    "sim", "job", "jobs", "slurm", "log", "raw", "alloc", "allocated", "num", "number", "n", "nb",
    "of", "count", "total", "the", "per", "actual", "used", "genid", "hash", "hashed", "anon",
}  # fmt: skip
_TIME_WORDS: Final = frozenset(
    {"time", "date", "timestamp", "at", "ts", "epoch", "unix", "datetime"}
)
_TIMED: Final = frozenset({*DATES, "duration", "time_limit"})
_LIMITS: Final = frozenset({"limit", "max", "maximum"})
_BY_WORDS: Final = 1000  # rank of a name that is known by its words
_ENDINGS: Final[Mapping[str, str]] = {
    "ns": "ns", "us": "us", "ms": "ms", "s": "s", "sec": "s", "secs": "s", "seconds": "s",
    "min": "min", "mins": "min", "minutes": "min", "h": "h", "hours": "h", "hrs": "h", "d": "d",
    "days": "d", "b": "B", "bytes": "B", "kb": "KB", "kib": "KB", "mb": "MB", "mib": "MB",
    "gb": "GB", "gib": "GB", "tb": "TB", "millicores": "millicores", "percent": "percent",
    "milli": "milli",
}  # fmt: skip
_AMOUNTS: Final = frozenset({"kb", "mb", "gb", "tb"})
_PER: Final[Mapping[str, str]] = {
    "cpu": "core", "core": "core", "node": "node", "host": "node", "gpu": "gpu",
}  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A column that may be read as a field, by its name.

    Attributes:
        name: Field, one of COLUMNS.
        label: Column of the table.
        unit: Unit in which its name ends, or "".
        rank: Place among the usual names; a smaller one is surer.
    """

    name: str
    label: str
    unit: str
    rank: int


def candidates(labels: Iterable[str]) -> list[Candidate]:
    """Return the columns that may be a field, the surest first."""
    found = [each for label in labels for each in _of_label(label)]
    return sorted(found, key=lambda each: (each.rank, COLUMNS.index(each.name)))


def _of_label(label: str) -> Iterator[Candidate]:
    """Yield what a column can be by its name."""
    stem, unit = without_unit(label)
    whole, bare = _squeezed(label), _squeezed(stem)
    words = snake_case(stem).split("_")
    known = False
    for name, usual in USUAL.items():
        for place, word in enumerate(usual.split()):
            # `submit_time_s` is a usual name with a unit, `req_s` only looks like one.
            if _squeezed(word) in {whole, bare}:
                known = True
                is_share = unit == "milli" and name == "gpus"
                yield Candidate("gpu_share" if is_share else name, label, unit, place)
                break
    if known:
        return
    requested = bool(_REQUESTED & set(words))
    kept = [word for word in words if word not in _QUALIFIERS] or words[-1:]
    if "per" in words and kept[0] in _WORDS[MEMORY].split():
        kept = kept[:1]
    amounts = [word for word in kept if word in _AMOUNTS]  # total_MB_req
    if amounts == kept:
        unit, kept = _ENDINGS[amounts[0]], ["memory"]
    limited = bool(_LIMITS & set(kept))
    for name, of_name in _WORDS.items():
        ignored = _TIME_WORDS if name in _TIMED else {"name"} if name in NAMES else frozenset()
        ignored |= _LIMITS if name == "duration" else frozenset()
        left = set(kept) - ignored
        if left and left <= set(of_name.split()):
            field = {"cores": "requested_cores", "duration": "time_limit"}.get(name, name)
            asked = requested or (limited and name == "duration")
            # Memory that was used is not what a job asked for.
            if not (name == MEMORY and "used" in words):
                yield Candidate(field if asked else name, label, unit, _BY_WORDS)


def memory_of(label: str) -> str:
    """Return what an amount of memory is of, by its name: "core" of mem_per_cpu, else "job"."""
    words = snake_case(label).split("_")
    after = words[words.index("per") + 1 :] if "per" in words else []
    return next((_PER[word] for word in after if word in _PER), "job")


def snake_case(label: str) -> str:
    """Return a name in lower case with _ between its words: "SubmitTime" is submit_time."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", label)
    return re.sub(r"[^a-z0-9]+", "_", split.lower()).strip("_")


def _squeezed(name: str) -> str:
    return snake_case(name).replace("_", "")


def without_unit(label: str) -> tuple[str, str]:
    """Return a name without the unit that it ends in, and the unit or ""."""
    stem, _, last = snake_case(label).rpartition("_")
    return (stem, _ENDINGS[last]) if stem and last in _ENDINGS else (snake_case(label), "")
