"""Reader of lists of pods that ask for CPU, memory and GPUs, such as the Alibaba GPU trace 2023.

A list is a .csv file with a header. The columns of the published lists, and other names of them:

    name          also pod               name of the pod, unique
    cpu_milli     or cpu, cores          thousandths of a CPU; CPUs such as 4 or 500m
    memory_mib    or memory              MiB; a quantity such as 16Gi, in bytes without a unit
    num_gpu       also gpus              number of GPUs, 0 to 16
    gpu_milli     optional               thousandths of each GPU; below 1000 with one GPU alone
    gpu_spec      optional; gpu_model    accepted models, joined by |; empty: all
    creation_time, deletion_time         optional; seconds

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

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError, did_you_mean, nearest
from hindcast.pipeline.traces.field_checks import name_fault, number, number_fault, value_fault
from hindcast.pipeline.traces.first_look import head_lines, source_file
from hindcast.pipeline.traces.ordering import distinct_tasks, in_order
from hindcast.pipeline.traces.text_rows import scan_rows, sift
from hindcast.pipeline.workloads.schema import Provenance, Workload

FORMAT: Final = "pods"
WHOLE: Final = 1000  # thousandths of a GPU
MOST_GPUS: Final = 16  # of one pod, and of one node
MOST_MILLI: Final = 16_000_000  # of CPU, and MiB: exact as float32
_EXPECTED: Final = (
    "a list of pods (.csv with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli, "
    "gpu_spec)"
)
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name", "pod", "pod_name"),
    "cpu": ("cpu_milli", "cpu", "cpus", "cores"),
    "memory": ("memory_mib", "memory"),
    "num_gpu": ("num_gpu", "gpus", "gpu", "num_gpus"),
    "gpu_milli": ("gpu_milli",),
    "gpu_spec": ("gpu_spec", "gpu_model", "gpu_type"),
    "created": ("creation_time",),
    "deleted": ("deletion_time",),
}
_NEEDED: Final = ("name", "cpu", "memory", "num_gpu")
_BYTES: Final[Mapping[str, float]] = {
    "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
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
    labels = [label.strip(' \t"') for label in head_lines(path, _EXPECTED)[0].split(",")]
    lower = {label.lower(): label for label in reversed(labels)}
    found = {
        field: next((lower[name] for name in names if name in lower), "")
        for field, names in _NAMES.items()
    }
    for field in _NEEDED:
        if not found[field]:
            close = nearest(_NAMES[field][0], labels)
            raise TraceError(
                f"{path}: no column {' or '.join(_NAMES[field])} in the header; expected "
                f"{_EXPECTED}" + (f"; did you mean {close!r}?" if close else "")
            )
    return {field: label for field, label in found.items() if label}


def read(path: Path, settings: PodsSettings = ONE_LIST) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of lists of pods, and their bad rows; raise TraceError if they are none.

    The path is that of a list, or with `settings.lists` the folder of these lists.
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
    found = columns_of(path)
    field_of = {label: field for field, label in found.items()}
    header = [label.strip(' \t"') for label in head_lines(path, _EXPECTED)[0].split(",")]
    rows = scan_rows(path, [field_of.get(label, "") for label in header], header_line=1)
    absent = [field for field in _NAMES if field not in found]
    rows = rows.with_columns(pl.lit(None, dtype=pl.String).alias(field) for field in absent)
    cpu = number("cpu") if found["cpu"] == "cpu_milli" else _cpu_milli()
    memory = number("memory") if found["memory"] == "memory_mib" else _mib()
    gpus, given = number("num_gpu"), number("gpu_milli")
    share = pl.when(gpus == 0).then(0.0).otherwise(pl.coalesce(given, pl.lit(float(WHOLE))))
    lasted = number("deleted") - number("created")
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
            number_fault("gpu_milli", optional=True, at_least=0, at_most=WHOLE),
            value_fault("gpu_milli", (gpus > 0) & (share != share.floor()), "a whole number"),
            value_fault("gpu_milli", (gpus > 0) & (share < 1), "above 0 for a pod with GPUs"),
            value_fault("gpu_milli", (gpus > 1) & (share != WHOLE), "1000 for several GPUs"),
            number_fault("created", optional=True),
            number_fault("deleted", optional=True),
        ),
        submit_s=number("created").fill_null(0.0),
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


def _cpu_milli() -> pl.Expr:
    """Return CPUs such as 4, .5 or 500m in thousandths, rounded up."""
    text = pl.col("cpu")
    milli = text.str.strip_suffix("m").cast(pl.Float64, strict=False)
    return (milli * pl.when(text.str.ends_with("m")).then(1.0).otherwise(1e3) - 1e-6).ceil()


def _mib() -> pl.Expr:
    """Return a quantity of memory of Kubernetes in MiB, rounded up."""
    amount = pl.col("memory").str.extract(r"^([0-9.]+)[A-Za-z]*$").cast(pl.Float64, strict=False)
    unit = pl.col("memory").str.extract(r"^[0-9.]+([A-Za-z]*)$")
    factor = unit.replace_strict(dict(_BYTES), default=None, return_dtype=pl.Float64)
    return (amount * factor / 2.0**20 - 1e-6).ceil()
