"""`hindcast calibrate`: tables and figures of papers, from our simulators and agents."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.calibrations import CALIBRATIONS
from hindcast.flows.commands import Command, Shown
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.storage.location import location

_WIDTH: Final = 42  # of the arguments in the help
_FLAGS: Final = {
    "overrides": "--set",
    "policies": "--policy",
}  # flags that differ from the field's name


@dataclass(frozen=True)
class Request:
    """Table to print, and its sources."""

    table: p.Name = p.argument("one of the tables above", metavar="TABLE")
    folders: tuple[p.Folder, ...] = p.argument(
        "folders that the table is made from, as shown above", default=()
    )
    episodes: p.Count | None = p.option(
        "episodes per row (default: that of the table)", default=None
    )
    seed: p.Seed = p.option("seed of all random draws", default=0)
    recipe: p.Name = p.option(
        "path or id of the recipe that the agents play", default="", metavar="RECIPE"
    )
    overrides: tuple[p.Override, ...] = p.overrides()
    policies: tuple[p.Name, ...] = p.option(
        "policies to compare with", default=(), flag="--policy", metavar="POLICY"
    )
    split: p.Name = p.option("split whose windows are played", default="test")
    windows: p.Count = p.option("windows at most, evenly spaced", default=20)
    last: p.Seed | None = p.option(
        "last window (default: the last one played)", default=None, metavar="WINDOW"
    )
    out: p.Folder | None = p.option(
        "file for the rows as CSV, beside printing them", default=None, metavar="FILE"
    )


def check(request: Request) -> None:
    """Raise InputError if the table is unknown, or does not read the given folders or options."""
    if request.table not in CALIBRATIONS:
        raise unknown_name("calibration", request.table, CALIBRATIONS)
    known = CALIBRATIONS[request.table]
    count = len(known.folders)
    if len(request.folders) != count:
        raise InputError(
            f"calibrate: {request.table} needs {count} folders, not {len(request.folders)}"
        )
    for field in fields(request)[2:]:
        flag, value = _flag(field.name), getattr(request, field.name)
        if field.name not in {*known.reads, "out"} and value != field.default:
            raise InputError(f"calibrate: {request.table} has no option {flag}")
        if field.name == known.needs and not value:
            raise InputError(f"calibrate: {request.table} needs {flag}")


def run(request: Request) -> dict[str, Any]:
    """Make the table, write it if a file is given, and return its lines and rows."""
    result = CALIBRATIONS[request.table].implementation()(request)
    if request.out is not None:
        import polars as pl

        from hindcast.pipeline.storage.files import make_folder, write_text

        file = location(request.out)
        make_folder(file.parent)
        table = pl.DataFrame(result["rows"], infer_schema_length=None)
        lists = pl.col(pl.List(pl.Int64)).cast(pl.List(pl.String)).list.join(" ")
        write_text(file, table.with_columns(lists).write_csv())
    return result


def show(result: Mapping[str, Any]) -> Shown:
    """Return the table."""
    return Shown(**result)


def _flag(name: str) -> str:
    """Return the flag of an option."""
    return _FLAGS.get(name, f"--{name}")


def _details() -> str:
    """Return the tables and their arguments, for the help."""
    lines = []
    for name, known in CALIBRATIONS.items():
        needed = _flag(known.needs) if known.needs else ""
        usage = " ".join(filter(None, (name, *known.folders, needed)))
        text = f"{usage:<{_WIDTH}}{known.description}"
        lines += textwrap.wrap(
            text,
            92,
            break_on_hyphens=False,
            initial_indent="  ",
            subsequent_indent=" " * (_WIDTH + 2),
        )
    return "\n".join(["Tables:", *lines])


COMMANDS: Final = {"calibrate": Command(
    "hindcast calibrate multicluster --episodes 50",
    Request,
    _details,
)}  # fmt: skip
