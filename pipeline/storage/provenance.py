"""Records of the machine and the code that computed a result.

    RUN/provenance.json                        sessions of a training: a list of records
    "provenance" of evaluation.json, ope.json  {"sessions": [key, ...], "records": {key: record}}
    provenance.json beside results.csv         {key: record}; rows have keys

A record has version and commit, processor, versions of libraries, and numbers of threads.

A session is a process that computed a part of a result. A result has several if it was interrupted
and finished by another version or on another machine. Datasets have no such records: their bytes do
not depend on the machine.
"""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.storage.files import read_json, sha256_text, write_json
from hindcast.pipeline.storage.run_files import BEST, CHECKPOINTS, DELIVERED
from hindcast.pipeline.storage.versions import checkout, package_versions, version

Record: TypeAlias = dict[str, Any]

PROVENANCE: Final = "provenance.json"
NOT_RECORDED: Final = "not-recorded"  # in place of the key of a result without records
_LIBRARIES: Final = (
    "numpy", "scipy", "numba", "llvmlite", "polars", "pyarrow", "highspy", "torch", "d3rlpy",
)  # fmt: skip
# With these, torch computes gradients with instructions that every x86-64 processor has.
PORTABLE: Final[Mapping[str, str]] = {
    "ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41",
}  # fmt: skip
_SETTINGS: Final = (  # variables that choose kernels or numbers of threads
    "ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "MKL_CBWR", "MKL_NUM_THREADS",
    "NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_FEATURES", "NUMBA_CPU_NAME", "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
)  # fmt: skip
_LEVELS: Final[Mapping[str, tuple[str, ...]]] = {  # of x86-64, by what LLVM calls the features
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v2": ("cx16", "popcnt", "sse4.2", "ssse3"),
}
_GIT_S: Final = 20
_MOST_SESSIONS: Final = 1000


def provenance(**more: Any) -> Record:
    """Return the record of this process, with `more` entries such as torch's kernels."""
    import numba
    import polars as pl

    allowed = getattr(os, "sched_getaffinity", None)
    processors = len(allowed(0)) if allowed else os.cpu_count()
    return {
        "hindcast": version(),
        "commit": commit(),
        **_machine(),
        "libraries": package_versions(_LIBRARIES),
        "threads": {
            "processors": processors,
            "numba": vars(numba.config)["NUMBA_NUM_THREADS"],
            "polars": pl.thread_pool_size(),
        },
        "settings": {name: os.environ[name] for name in _SETTINGS if name in os.environ},
        **more,
    }


def chosen_kernels() -> dict[str, str]:
    """Return the variables that choose kernels of torch, as far as they are set."""
    return {name: os.environ[name] for name in PORTABLE if name in os.environ}


def key_of(record: Mapping[str, Any]) -> str:
    """Return the short name of a record, the first digits of its SHA-256."""
    return sha256_text(json.dumps(record, sort_keys=True))[:8]


def joined(sessions: Iterable[Record], record: Record) -> list[Record]:
    """Return the sessions with one more, unless it is like the last."""
    known = list(sessions)
    return known if known and known[-1] == record else [*known, record]


def described(sessions: Sequence[Record], others: Iterable[Record] = ()) -> dict[str, Any]:
    """Return the entry of a result's description: its sessions, and all records by key."""
    records = {key_of(record): record for record in (*sessions, *others)}
    return {"sessions": [key_of(record) for record in sessions], "records": records}


def begin_training(run: Path, record: Record) -> None:
    """Write down in the folder of a training that this process computes a part of it."""
    write_json(run / PROVENANCE, joined(_sessions(run / PROVENANCE), record))


def sessions_of_training(checkpoint: Path) -> tuple[Record, ...]:
    """Return the sessions of the training that a checkpoint is of; empty if none are recorded.

    Raises DatasetError if the file of records cannot be read.
    """
    run = checkpoint
    if checkpoint.name in {BEST, DELIVERED}:
        run = checkpoint.parent
    elif checkpoint.parent.name == CHECKPOINTS:
        run = checkpoint.parent.parent
    return tuple(_sessions(run / PROVENANCE))


def _sessions(path: Path) -> list[Record]:
    if not path.is_file():
        return []
    return as_records(read_json(path), str(path))


def as_records(value: Any, where: str) -> list[Record]:
    """Return a list of records that was read from a file; DatasetError if it is none."""
    if not isinstance(value, list) or not all(isinstance(record, dict) for record in value):
        raise DatasetError(f"{where}: expected a list of records of where it was computed")
    if len(value) > _MOST_SESSIONS:
        raise DatasetError(
            f"{where}: {len(value):,} records of where it was computed, expected at most "
            f"{_MOST_SESSIONS:,}"
        )
    return value


@cache
def commit() -> str:
    """Return the commit of the checkout that runs, as git describes it; else "release".

    Git is run in the checkout of this package alone, and only if that is a repository itself.
    """
    root = checkout()
    if root is None or not (root / ".git").exists():
        return "release"
    own = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    call = ["git", "-C", str(root), "describe", "--always", "--tags", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(  # noqa: S603 - nothing in the call is input
            call, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
            timeout=_GIT_S, env={**own, "GIT_OPTIONAL_LOCKS": "0"},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"  # no git here, or a repository of another user
    return found.stdout.strip() or "unknown"


@cache
def _machine() -> Record:
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    levels = [level for level, needed in _LEVELS.items() if all(map(features.get, needed))]
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _model() or platform.processor() or "unknown",
        "instructions": (levels or [platform.machine()])[0],
        "architecture": binding.get_host_cpu_name(),
    }


def _model() -> str:
    """Return the name of the processor that Linux knows, or ""."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "")
