"""Checks of a machine and an installation, for `hindcast doctor`.

Each check returns findings: a measured fact, its judgement, and a remedy. A check changes nothing,
except that it writes one small file into a folder and deletes the file again.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from hindcast.pipeline.errors import HindcastError, InputError
from hindcast.pipeline.storage.extras import EXTRAS, installed
from hindcast.pipeline.storage.location import is_remote, location
from hindcast.pipeline.storage.versions import DISTRIBUTION, package_versions, version

Judgement = Literal["ok", "warning", "failure"]

_LEAST_DISK: Final = 1 << 30  # bytes; a dataset of ten million decisions takes some 300 MB
_LEAST_MEMORY: Final = 2 << 30  # bytes; libraries take 500 MB, a worker of `build` some 300 MB
_SHOWN: Final = ("numpy", "polars", "pyarrow", "numba", "torch", "d3rlpy", "gymnasium", "prefect")
_GIB: Final = 1 << 30


@dataclass(frozen=True)
class CheckResult:
    """Result of one check.

    Attributes:
        check: Name of the check.
        judgement: "ok"; "warning" if something works worse or not everywhere; "failure" if
            commands will fail.
        fact: The fact that was measured.
        remedy: How to mend it; empty if it is ok.
    """

    check: str
    judgement: Judgement
    fact: str
    remedy: str = ""


def diagnose(folders: Sequence[str]) -> list[CheckResult]:
    """Return the findings of all checks; `folders` are the places where commands will write."""
    places = [*folders] or ["."]
    findings = [finding for check in CHECKS.values() for finding in check()]
    return findings + [finding for place in places for finding in _folder(place)]


def _versions() -> Iterator[CheckResult]:
    """Yield the version of this package, and whether the libraries are those that it needs."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield CheckResult("hindcast", "ok", f"{version()} on Python {python}, {sys.platform}")
    faults = list(_unsatisfied())
    versions = package_versions(_SHOWN)
    fact = ", ".join(f"{name} {number}" for name, number in versions.items())
    if not faults:
        yield CheckResult("libraries", "ok", fact)
        return
    yield CheckResult(
        "libraries", "failure" if any("missing" in w for w in faults) else "warning",
        "; ".join(faults), f"pip install --upgrade '{DISTRIBUTION}=={version()}'",
    )  # fmt: skip


def _unsatisfied() -> Iterator[str]:
    """Yield the requirements of this package that the environment does not satisfy."""
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # a checkout on PYTHONPATH
        return
    for requirement in map(Requirement, required):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        installed = package_versions([requirement.name]).get(requirement.name)
        if installed is None:
            yield f"{requirement.name} is missing, expected {requirement.specifier}"
        elif not requirement.specifier.contains(installed, prereleases=True):
            yield f"{requirement.name} is {installed}, expected {requirement.specifier}"


def _cores() -> Iterator[CheckResult]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    fact = f"{usable} of {os.cpu_count()} usable; give --workers {usable}"
    threads = os.environ.get("OMP_NUM_THREADS")
    yield CheckResult("cores", "ok", f"{fact}; OMP_NUM_THREADS={threads}" if threads else fact)


def _memory() -> Iterator[CheckResult]:
    """Yield the memory of the machine, or of the container if that is less."""
    if not hasattr(os, "sysconf"):
        return
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")  # of a container
    text = limit.read_text(encoding="ascii").strip() if limit.is_file() else ""
    usable = min(total, int(text)) if text.isdigit() else total
    fact = f"{usable / _GIB:.1f} GiB{' (limit of the container)' if usable < total else ''}"
    if usable >= _LEAST_MEMORY:
        yield CheckResult("memory", "ok", fact)
    else:
        remedy = "use --workers 1 and smaller windows, or a machine with at least 2 GiB"
        yield CheckResult("memory", "warning", fact, remedy)


def _gpu() -> Iterator[CheckResult]:
    try:
        import torch
    except ImportError:  # reported by `libraries`
        return
    if torch.cuda.is_available():
        names = {torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())}
        yield CheckResult("gpu", "ok", f"{', '.join(sorted(names))}; CUDA {torch.version.cuda}")
    else:
        built = f"is built for CUDA {torch.version.cuda}" if torch.version.cuda else "has no CUDA"
        yield CheckResult("gpu", "ok", f"none (torch {built}); agents train on the processor")


def _kernels() -> Iterator[CheckResult]:
    """Yield whether compiled simulators can be kept, since compiling them takes a minute."""
    setting = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(setting) if setting else Path(__file__).resolve().parents[1] / "pipeline"
    if _writable(folder) is None:
        yield CheckResult("kernels", "ok", f"compiled simulators are kept in {folder}")
    else:
        yield CheckResult(
            "kernels", "warning", f"{folder} is not writable, so numba chooses another folder or "
            "compiles the simulators again in every process",
            "set NUMBA_CACHE_DIR to a folder that you may write",
        )  # fmt: skip


def _prefect() -> Iterator[CheckResult]:
    """Yield whether the server of Prefect answers, and whether its folder can be written."""
    from hindcast.flows.engine import check_server, prefect_home

    if not installed("prefect"):
        yield CheckResult(
            "prefect", "ok", "not installed: commands run without it, as with --direct"
        )
        return
    url = os.environ.get("PREFECT_API_URL")
    if url:
        try:
            check_server(url)
        except InputError as error:
            fact, _, remedy = str(error).partition("; ")
            yield CheckResult("prefect server", "failure", fact, remedy)
        else:
            yield CheckResult("prefect server", "ok", f"{url} answers")
            yield from _leases(url)
    else:
        fact = "PREFECT_API_URL is not set; each command starts a server of its own"
        yield CheckResult("prefect server", "ok", fact)
    with prefect_home() as home:
        problem = _writable(home)
        if problem is None:
            yield CheckResult("prefect home", "ok", f"{home}")
        else:
            remedy = "set PREFECT_HOME to a folder that you may write, or give --direct"
            yield CheckResult("prefect home", "failure", problem, remedy)


def _leases(url: str) -> Iterator[CheckResult]:
    """Check where a server keeps the leases of concurrency limits, if it tells."""
    from hindcast.flows.engine import server_settings

    storage = server_settings(url).get("server", {}).get("concurrency", {}).get("lease_storage")
    if storage == "prefect.server.concurrency.lease_storage.memory":
        fact = "the server keeps the places of concurrency limits in memory"
        remedy = (
            "start it with PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE="
            "prefect.server.concurrency.lease_storage.filesystem, so that places that are held "
            "when it is killed become free"
        )
        yield CheckResult("prefect leases", "warning", fact, remedy)
    elif storage:
        yield CheckResult("prefect leases", "ok", f"{storage.rpartition('.')[2]}")


def _extras() -> Iterator[CheckResult]:
    """Yield the extras that are installed; commands that need another one report it themselves."""
    modules_of: dict[str, list[bool]] = {}
    for module, extra in EXTRAS.items():
        modules_of.setdefault(extra, []).append(installed(module))
    complete = [extra for extra, modules in modules_of.items() if all(modules)]
    absent = [extra for extra in modules_of if extra not in complete]
    without = f"; not installed: {', '.join(absent)}" if absent else ""
    yield CheckResult("extras", "ok", (", ".join(complete) or "none") + without)


def _traces() -> Iterator[CheckResult]:
    """Yield which folders of raw traces there are."""
    from hindcast.pipeline.storage.location import traces_folder

    folder = traces_folder()
    is_set = os.environ.get("HINDCAST_TRACES")
    if folder.is_dir():
        names = sorted(p.name for p in folder.iterdir() if p.is_dir())
        yield CheckResult("traces", "ok", f"{folder}: {', '.join(names) or 'no folders'}")
    else:
        yield CheckResult(
            "traces", "failure" if is_set else "warning",
            f"HINDCAST_TRACES is {folder}, which is no folder" if is_set else
            "HINDCAST_TRACES is not set; recipes of real traces cannot be built",
            "set HINDCAST_TRACES to the folder of raw traces; `hindcast traces` says where to get "
            "them",
        )  # fmt: skip


def _folder(place: str) -> Iterator[CheckResult]:
    """Yield whether a folder or URL can be written, and the free space of its disk."""
    name = f"folder {place}"
    try:
        path = location(place)
        problem = _writable(path)
    except HindcastError as error:
        problem = str(error)
    if problem is not None:
        fact, _, remedy = problem.partition("; ")
        yield CheckResult(
            name, "failure", fact, remedy or "choose another folder or its permissions"
        )
        return
    if is_remote(path):
        yield CheckResult(name, "ok", "an object can be written and deleted")
        return
    import shutil

    usage = shutil.disk_usage(_existing(path))
    fact = f"writable, {usage.free / _GIB:.1f} GiB free"
    if usage.free >= _LEAST_DISK:
        yield CheckResult(name, "ok", fact)
    else:
        yield CheckResult(name, "warning", fact, "free some space; a full disk ends a command")


def _writable(folder: Path) -> str | None:
    """Return the reason that no file can be written below a folder, or None."""
    if is_remote(folder):
        try:
            folder.check_writable(".hindcast-doctor")
        except HindcastError as error:
            return str(error)
        return None
    existing = _existing(folder)
    if not existing.is_dir():
        return f"{existing} is a file"
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".hindcast-doctor-") as file:
            file.write(b"probe")
            file.flush()
    except OSError as error:
        return f"{existing}: {error.strerror}"
    return None


def _existing(folder: Path) -> Path:
    """Return the folder or its nearest parent that exists."""
    path = folder.absolute()
    return next(p for p in (path, *path.parents) if p.exists())


CHECKS: Final[dict[str, Callable[[], Iterator[CheckResult]]]] = {
    "versions": _versions,
    "cores": _cores,
    "memory": _memory,
    "gpu": _gpu,
    "kernels": _kernels,
    "prefect": _prefect,
    "extras": _extras,
    "traces": _traces,
}
