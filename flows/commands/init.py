"""`hindcast init`: look at a table of jobs, and propose the mapping that ingests it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flows import parser as p
from flows.commands import Command, Shown
from pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Table of jobs, and the file for its mapping."""

    source: p.Folder = p.argument("table of jobs, CSV or Parquet", metavar="TABLE")
    out: p.Folder = p.option(
        "file for the mapping (default: beside the table, ending in .toml); never overwritten",
        default="", metavar="FILE",
    )  # fmt: skip


def check(request: Request) -> None:
    """Raise InputError if there is no table, or the file for the mapping exists."""
    from pipeline.errors import InputError, StorageError, TraceError
    from pipeline.storage.location import is_remote

    source, out = location(request.source), _out(request)
    if is_remote(source) or is_remote(out):
        raise InputError(f"{source}: expected a table on this machine, not in an object store")
    if not source.exists():
        raise TraceError(f"{source}: no such file; expected a table of jobs, CSV or Parquet")
    if (source / "manifest.json").is_file():
        raise InputError(
            f"{source}: this is a folder that Hindcast wrote, expected a table of jobs; a workload "
            'is used by a recipe with [trace] format = "workload"'
        )
    if out.exists():
        raise StorageError(
            f"{out}: this file exists and is not overwritten; choose another --out, or remove it"
        )


def _out(request: Request) -> Path:
    """Return the file for the mapping: jobs.toml for jobs.csv, jobs.csv.gz and jobs.parquet."""
    if request.out:
        return location(request.out)
    source = location(request.source)
    return source.with_name(source.name.removesuffix(".gz")).with_suffix(".toml")


def run(request: Request) -> dict[str, Any]:
    """Look at a table, write the mapping, and return what is unsure."""
    from pipeline.storage.files import write_text
    from pipeline.traces.proposal import propose, toml_of

    source, out = location(request.source), _out(request)
    found = propose(source)
    beside = source.resolve().parent == out.resolve().parent
    write_text(out, toml_of(found, source.name if beside else str(source.resolve())))
    return {
        "mapping": str(out),
        "columns": found.columns,
        "units": found.units,
        "states": found.states,
        "not_read": found.unused,
        "unsure": found.unsure,
    }


def show(result: Mapping[str, Any]) -> Shown:
    """Return the proposed columns, what is unsure, and the next command."""
    units = result["units"]
    lines = [f"{result['mapping']}: {len(result['columns'])} columns proposed"]
    for name, label in result["columns"].items():
        unit = f" ({units[name]})" if name in units else ""
        lines.append(f"  {name:<16} {label}{unit}")
    if result["not_read"]:
        lines.append(f"  {'not read':<16} {', '.join(result['not_read'])}")
    lines += [f"unsure: {each}" for each in result["unsure"]]
    lines += [
        "Look at the file, then:",
        f"  hindcast ingest table {result['mapping']} --out workload",
    ]
    return Shown(lines)


COMMANDS: Final = {"init": Command("hindcast init jobs.csv --out jobs.toml", Request)}
