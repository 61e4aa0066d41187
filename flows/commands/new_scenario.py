"""`hindcast new-scenario`: write a small scenario as a package, to be changed into one's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Name of the scenario, and the folder of its package."""

    name: p.Name = p.argument("name of the scenario and of its package: a-z, 0-9 and _")
    out: p.Folder = p.option(
        "folder to write (default: the name, in this folder); never overwritten", default=""
    )


def check(request: Request) -> None:
    """Raise InputError for a name that a scenario cannot have, or a folder that exists."""
    from hindcast.pipeline.errors import InputError, StorageError
    from hindcast.pipeline.scenarios.template import check_name
    from hindcast.pipeline.storage.location import is_remote

    check_name(request.name)
    out = _out(request)
    if is_remote(out):
        raise InputError(f"{out}: expected a folder on this machine, not in an object store")
    if out.exists():
        raise StorageError(
            f"{out}: this exists and is not overwritten; choose another --out, or remove it"
        )


def _out(request: Request) -> Path:
    return location(request.out or request.name)


def run(request: Request) -> dict[str, Any]:
    """Write all files into a folder of another name beside it, and rename the folder."""
    from hindcast.pipeline.scenarios.template import files_of
    from hindcast.pipeline.storage.files import (
        make_folder,
        remove_folder,
        storage_errors,
        write_text,
    )

    out, files = _out(request), files_of(request.name)
    temporary = out.with_name(f".{out.name}.partial")
    try:
        for place, text in files.items():
            make_folder((temporary / place).parent)
            write_text(temporary / place, text)
        with storage_errors(out):
            temporary.rename(out)
    finally:
        remove_folder(temporary)
    return {"scenario": request.name, "folder": str(out), "files": sorted(files)}


def show(result: Mapping[str, Any]) -> Shown:
    """Return the files, and the next commands."""
    name, folder = result["scenario"], result["folder"]
    return Shown([
        f"{folder}: a scheduling problem that runs as it is, to be changed",
        *(f"  {place}" for place in result["files"]),
        "Next:",
        f"  pip install -e {folder}",
        f"  python -m pytest {folder}/tests",
        f"  hindcast run {name}-v1 --out run",
        "How to make it yours: docs/how-to/add-a-scenario.md",
    ])  # fmt: skip


COMMANDS: Final = {"new-scenario": Command("hindcast new-scenario duedates", Request)}
