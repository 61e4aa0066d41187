"""Reader of lists of pods that ask for CPU, memory and GPUs, such as the Alibaba GPU trace 2023.

A list is a .csv file with a header, of commas, semicolons or tabs. The columns of the published
lists, and other names of them; capitals, blanks and signs in names do not count:

    name          also pod               name of the pod, unique; with a namespace, if there is one
    cpu_milli     or cpu, cores          thousandths of a CPU; CPUs such as 4 or 500m
    memory_mib    or memory              MiB; a quantity such as 16Gi, in bytes without a unit
    num_gpu       also gpus              number of GPUs, 0 to 16, or a share of one such as .5
    gpu_milli     or gpu_share           thousandths of each GPU, or a share of one such as .5;
                                         optional, and less than a GPU with one GPU alone
    gpu_spec      optional; gpu_model    accepted models, joined by |; empty: all
    creation_time, deletion_time         optional; seconds, or as in ISO 8601

Requests and limits of Kubernetes are read too (CPU REQUESTS, nvidia.com/gpu LIMITS). The request
counts, else the limit, else 0, as the scheduler sees a container without them. <none> is 0.

A pod is a job of one task with one instance. After the canonical columns its row has

    cpu_milli, memory_mib, num_gpu, gpu_milli    int64
    gpu_spec      string    as written; "" accepts all
    ends          bool      whether its duration is known

    list          int64     place of its file in `lists`, if several lists are read

`memory` is in MiB, since no machine is known. A pod without a known duration has 1 s. With several
lists, a job is named by its list and its pod.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023, and the repository hkust-adsl/kubernetes-scheduler-simulator.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError, did_you_mean, nearest
from hindcast.pipeline.traces.field_checks import name_fault, number, number_fault, value_fault
from hindcast.pipeline.traces.field_values import moment
from hindcast.pipeline.traces.first_look import head_lines, source_file
from hindcast.pipeline.traces.ordering import distinct_tasks, in_order
from hindcast.pipeline.traces.text_rows import scan_rows, sift
from hindcast.pipeline.workloads.log_columns import peak
from hindcast.pipeline.workloads.schema import Provenance, Workload

FORMAT: Final = "pods"
WHOLE: Final = 1000  # thousandths of a GPU
MOST_GPUS: Final = 16  # of one pod, and of one node
MOST_MILLI: Final = 16_000_000  # of CPU, and MiB: exact as float32
_EXPECTED: Final = (
    "a list of pods (.csv with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli, "
    "gpu_spec)"
)
_ASKED: Final = ("{}_request", "{}_requests", "requests_{}", "request_{}", "{}_req", "req_{}")
_LIMITS: Final = ("{}_limit", "{}_limits", "limits_{}", "limit_{}")
_GPUS: Final = ("gpu", "gpus", "nvidia_com_gpu")


def _asked(forms: Sequence[str], *names: str) -> tuple[str, ...]:
    return tuple(form.format(name) for form in forms for name in names)


_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name", "pod", "pod_name"),
    "cpu": ("cpu_milli", "cpu", "cpus", "cores", *_asked(_ASKED, "cpu")),
    "memory": ("memory_mib", "memory", *_asked(_ASKED, "memory", "mem"), "mem", "memory_gib",
               "mem_gib", "memory_gi", "memory_mi", "mem_mib", "memory_gb", "mem_gb", "memory_mb",
               "memory_bytes"),
    "num_gpu": ("num_gpu", "gpus", "gpu", "num_gpus", *_asked(_ASKED, *_GPUS), "nvidia_com_gpu",
                "gpu_count"),
    "gpu_milli": ("gpu_milli", "gpu_share", "gpu_shares", "gpu_fraction", "gpu_portion"),
    "gpu_spec": ("gpu_spec", "gpu_model", "gpu_type", "gpu_product", "nvidia_com_gpu_product"),
    "created": ("creation_time", "created", "created_at", "creation_timestamp", "start_time"),
    "deleted": ("deletion_time", "finished", "finished_at", "deleted", "deleted_at", "end_time",
                "completion_time"),
    "namespace": ("namespace",),
    "cpu limit": _asked(_LIMITS, "cpu"),
    "memory limit": _asked(_LIMITS, "memory", "mem"),
    "num_gpu limit": _asked(_LIMITS, *_GPUS),
}  # fmt: skip
_NONE: Final = "<none>"
_LITTLE_MIB: Final = 64
_NEEDED: Final = ("name", "cpu", "memory", "num_gpu")
_BYTES: Final[Mapping[str, float]] = {
    "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
_UNIT_OF: Final = {"gib": "Gi", "gi": "Gi", "mib": "Mi", "mi": "Mi", "gb": "G", "mb": "M"}
_EXTRA: Final = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "ends")


@dataclass(frozen=True)
class PodsSettings:
    """The lists of a folder that are read.

    Attributes:
        lists: Names of files in the folder that is the trace; the windows of a recipe play one of
            these lists each, in turn. Empty if the trace is one list.
    """

    lists: tuple[str, ...] = ()


ONE_LIST: Final = PodsSettings()


def columns_of(path: Path) -> dict[str, str]:
    """Return the label of every known column of a list; raise TraceError if one is missing."""
    labels = _header(path)[0]
    plain = {_plain(label): label for label in reversed(labels)}
    found = {
        field: next((plain[name] for name in names if name in plain), "")
        for field, names in _NAMES.items()
    }
    for field in _NEEDED:
        found[field] = found[field] or found.get(f"{field} limit", "")
        if not found[field]:
            close = nearest(_NAMES[field][0], labels)
            raise TraceError(
                f"{path}: no column {' or '.join(_NAMES[field][:4])} in the header; expected "
                f"{_EXPECTED}" + (f"; did you mean {close!r}?" if close else "")
            )
    return {field: label for field, label in found.items() if label}


def not_read(path: Path) -> list[str]:
    """Return the labels of the columns of a list that are not read, in the order of the file."""
    read_labels = set(columns_of(path).values())
    return [label for label in _header(path)[0] if label and label not in read_labels]


def doubts(path: Path, pods: pl.DataFrame, models: Collection[str]) -> list[str]:
    """Return what of a list may be misread, or which of its pods no node of these models takes."""
    found = []
    if pods["memory_mib"].max() < _LITTLE_MIB:  # type: ignore[operator]
        label = columns_of(path)["memory"]
        why = "numbers without a unit are bytes, so name a column in GiB memory_gib"
        if _plain(label).rpartition("_")[2] in _UNIT_OF:
            why = f"is {label} in another unit?"
        found.append(f"no pod asks for {_LITTLE_MIB} MiB: {why}")
    asked = {m for spec in pods["gpu_spec"].unique() for m in spec.split("|") if m}
    if absent := sorted(asked.difference(models)):
        found.append(f"no node has the models {', '.join(absent)}, which pods ask for")
    return found


def _header(path: Path) -> tuple[list[str], str]:
    """Return the labels of the columns, and the character between them."""
    line = head_lines(path, _EXPECTED)[0]
    separator = max(",;\t", key=line.count)
    return [label.strip(' \t"') for label in line.split(separator)], separator


def _plain(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def _quantity(field: str, found: Mapping[str, str]) -> pl.Expr:
    """Return what a pod asks for: its request, else its limit, else 0 in Kubernetes."""
    texts = [pl.col(name) for name in (field, f"{field} limit") if found.get(name)]
    zero = pl.any_horizontal(text == _NONE for text in texts)
    if any(word in _plain(found[field]) for word in ("req", "limit", "nvidia")):
        zero = pl.lit(value=True)
    asked = pl.coalesce(pl.when(text != _NONE).then(text) for text in texts)
    return pl.coalesce(asked, pl.when(zero).then(pl.lit("0")))


def read(path: Path, settings: PodsSettings = ONE_LIST) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of lists of pods, and their bad rows.

    The path is that of a list, or with `settings.lists` the folder of these lists. Raises
    TraceError for a file that is no list of pods.
    """
    if not settings.lists:
        return _read_list(path)
    if not path.is_dir():
        raise TraceError(
            f"{path}: trace.settings.lists names lists in a folder, but this is no folder; give "
            "the folder as trace.path, or leave lists out"
        )
    known = sorted(file.name for file in path.iterdir() if file.is_file())
    for name in settings.lists:
        if name not in known:
            raise TraceError(
                f"{path}: trace.settings.lists has {name!r}, expected files of this folder; "
                f"{did_you_mean(name, known)}"
            )
    read_lists = [_read_list(path / name) for name in settings.lists]
    counts, left_out = Counter[str](), Counter[str]()
    for workload, _ in read_lists:
        counts.update(workload.provenance.counts)
        left_out.update(workload.provenance.left_out)
    tasks = [
        workload.tasks.with_columns(
            job_id=pl.format(f"{i}/{{}}", "job_id"), list=pl.lit(i, pl.Int64)
        )
        for i, (workload, _) in enumerate(read_lists)
    ]
    in_time = pl.concat(tasks).sort("submit_s", maintain_order=True)
    provenance = Provenance(
        format=FORMAT,
        files=tuple(file for workload, _ in read_lists for file in workload.provenance.files),
        counts=dict(counts),
        left_out=dict(left_out),
        notes=tuple(dict.fromkeys(note for one, _ in read_lists for note in one.provenance.notes)),
    )
    jobs = pl.int_range(pl.len(), dtype=pl.Int64)
    return Workload(tasks=in_time.with_columns(job=jobs), provenance=provenance), pl.concat(
        bad for _, bad in read_lists
    )


def _read_list(path: Path) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a list of pods, and its bad rows."""
    found = columns_of(path)
    field_of = {label: field for field, label in reversed(found.items())}
    header, separator = _header(path)
    taken = dict.fromkeys(label for label in header if label in field_of)
    names = [field_of[label] if taken.pop(label, 1) is None else "" for label in header]
    rows = scan_rows(path, names, header_line=1, separator=separator)
    absent = [field for field in _NAMES if field not in names]
    rows = rows.with_columns(pl.lit(None, dtype=pl.String).alias(field) for field in absent)
    rows = rows.with_columns(_quantity(f, found).alias(f) for f in ("cpu", "memory", "num_gpu"))
    if "namespace" in found:
        rows = rows.with_columns(name=pl.concat_str("namespace", "name", separator="/"))
    of_cpu, of_memory = _plain(found["cpu"]), _plain(found["memory"])
    cpu = number("cpu") if of_cpu == "cpu_milli" else _cpu_milli()
    memory = number("memory") if of_memory == "memory_mib" else _mib(of_memory)
    gpus, given = number("num_gpu"), number("gpu_milli")
    whole = WHOLE
    if _plain(found.get("gpu_milli", "gpu_milli")) != "gpu_milli":
        given, whole = (given * WHOLE - 1e-6).ceil(), 1
    part = gpus.is_between(0, 1, closed="none") & ("gpu_milli" not in found)
    given = pl.when(part).then((gpus * WHOLE - 1e-6).ceil()).otherwise(given)
    gpus = pl.when(part).then(1.0).otherwise(gpus)
    share = pl.when(gpus == 0).then(0.0).otherwise(pl.coalesce(given, pl.lit(float(WHOLE))))
    lasted = moment(pl.col("deleted")) - moment(pl.col("created"))
    known = (lasted > 0).fill_null(value=False)
    values = rows.select(
        "line",
        "text",
        job_id="name",
        task_id=pl.lit("0"),
        reason=pl.coalesce(
            "reason",
            name_fault("name"),
            _whole_fault("cpu", cpu, "a quantity of CPU from 0 to 16,000 CPUs"),
            _whole_fault("memory", memory, "a quantity of memory from 0 to 15 TiB"),
            _whole_fault("num_gpu", gpus, f"a whole number from 0 to {MOST_GPUS}", MOST_GPUS),
            number_fault("gpu_milli", optional=True, at_least=0, at_most=whole),
            value_fault("gpu_milli", (gpus > 0) & (share != share.floor()), "a whole number"),
            value_fault("gpu_milli", (gpus > 0) & (share < 1), "above 0 for a pod with GPUs"),
            value_fault("gpu_milli", (gpus > 1) & (share != WHOLE), f"{whole} for several GPUs"),
            value_fault("gpu_milli", (gpus == 0) & (given > 0), "0 for a pod without GPUs"),
            *(_time_fault(name) for name in ("created", "deleted")),
        ).str.replace("^gpu_milli ", found.get("gpu_milli", "gpu_milli") + " "),
        submit_s=moment(pl.col("created")).fill_null(0.0),
        duration_s=pl.when(known).then(lasted).otherwise(1.0),
        cores=pl.max_horizontal(cpu / WHOLE, 1e-6),
        memory=memory,
        instances=pl.lit(1, dtype=pl.Int64),
        cpu_milli=cpu.cast(pl.Int64, strict=False),
        memory_mib=memory.cast(pl.Int64, strict=False),
        num_gpu=gpus.cast(pl.Int64, strict=False),
        gpu_milli=share.cast(pl.Int64, strict=False),
        gpu_spec=pl.col("gpu_spec").fill_null(""),
        ends=known,
    )
    distinct, pods = distinct_tasks(path, sift(path, values, "pods"), "a usable pod")
    extra = distinct.select("job_id", *_EXTRA)
    tasks = in_order(distinct).join(extra, on="job_id", how="left", maintain_order="left")
    counts = {"rows_read": pods.read, "instances": tasks.height}
    counts |= dict.fromkeys(("tasks", "jobs"), tasks.height)
    counts |= {"without_duration": int((~tasks["ends"]).sum())}
    provenance = Provenance(
        format=FORMAT,
        files=(source_file(path),),
        counts=dict(counts),
        left_out=pods.all_left_out,
        notes=("memory is in MiB", *pods.note()),
    )
    return Workload(tasks=tasks, provenance=provenance), pods.quarantine


def most_at_once(pods: pl.DataFrame) -> float | None:
    """Return the GPUs that pods ask for at once; None if a pod has no known duration."""
    if not pods["ends"].all():
        return None
    asked = (pods["num_gpu"] * pods["gpu_milli"]).to_numpy()
    submit, lasted = pods["submit_s"].to_numpy(), pods["duration_s"].to_numpy()
    return peak(submit, submit + lasted, asked) / WHOLE


def raw_files(path: Path) -> tuple[Path, ...]:
    """Return the files that `read` may read."""
    return tuple(path.iterdir()) if path.is_dir() else (path,)


def _whole_fault(name: str, value: pl.Expr, expected: str, most: int = MOST_MILLI) -> pl.Expr:
    """Return the reason that a field is no whole number from 0 to `most`, else null."""
    whole = value.is_between(0, most) & (value == value.floor())
    missing = pl.when(pl.col(name).is_null()).then(
        pl.lit(f"{name} is missing, expected {expected}")
    )
    return pl.coalesce(missing, value_fault(name, ~whole.fill_null(value=False), expected))


def _time_fault(name: str) -> pl.Expr:
    time = moment(pl.col(name))
    unread = pl.col(name).is_not_null() & ~time.is_finite().fill_null(value=False)
    return value_fault(name, unread, "seconds or a time such as 2025-01-31T13:00:00Z")


def _cpu_milli() -> pl.Expr:
    """Return CPUs such as 4, .5 or 500m in thousandths, rounded up."""
    text = pl.col("cpu")
    milli = text.str.strip_suffix("m").cast(pl.Float64, strict=False)
    return (milli * pl.when(text.str.ends_with("m")).then(1.0).otherwise(1e3) - 1e-6).ceil()


def _mib(label: str) -> pl.Expr:
    """Return a quantity of memory of Kubernetes in MiB, rounded up.

    A number without a unit is in that of the label, such as gib in memory_gib, else in bytes.
    """
    amount = pl.col("memory").str.extract(r"^([0-9.]+)[A-Za-z]*$").cast(pl.Float64, strict=False)
    unit = pl.col("memory").str.extract(r"^[0-9.]+([A-Za-z]*)$")
    said = _UNIT_OF.get(label.rpartition("_")[2], "")
    factor = unit.replace_strict(
        {**_BYTES, "": _BYTES[said]}, default=None, return_dtype=pl.Float64
    )
    return (amount * factor / 2.0**20 - 1e-6).ceil()
