"""`hindcast list`, `show` and `diff`: list folders, show one, compare two."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flows import parser as p
from flows.commands import Command, Shown, refuse_nothing
from pipeline.storage.location import location

check: Final = refuse_nothing


@dataclass(frozen=True)
class List:
    """Folders to search, or the recipes."""

    folders: tuple[p.Folder, ...] = p.argument(
        "folders to search (default: this one)", default=(".",)
    )
    recipes: bool = p.option("list the recipes that come with Hindcast instead", default=False)


@dataclass(frozen=True)
class Show:
    """Folder to show."""

    folder: p.Folder = p.argument("folder that `hindcast list` lists")


@dataclass(frozen=True)
class Diff:
    """Datasets to compare."""

    a: p.Folder = p.argument("folder of a dataset", metavar="A")
    b: p.Folder = p.argument("folder of another dataset", metavar="B")


def run(request: List | Show | Diff) -> dict[str, Any]:
    """Return the lines and rows that are printed, and the exit code."""
    if isinstance(request, List):
        return _list(request)
    if isinstance(request, Show):
        from pipeline.inspection.show import details

        found = details(location(request.folder))
        return {"lines": found.lines, "rows": [found.facts]}
    from pipeline.inspection.diff import compare, report

    differences = compare(location(request.a), location(request.b))
    same = {"a": request.a, "b": request.b, "same": not differences}
    return {
        "lines": report(differences),
        "rows": [same, *(d.to_json() for d in differences)],
        "code": int(bool(differences)),
    }


def _list(request: List) -> dict[str, Any]:
    from pipeline.inspection import list as catalogue

    if request.recipes:
        found = catalogue.recipes()
        rows = [("recipe", "scenario", "level", "episodes", "description")]
        rows += [
            (r["name"], r["scenario"], r["level"] or "-", f"{r['episodes']:,}", r["description"])
            for r in found
        ]
        return {"lines": catalogue.aligned(rows, right=(3,)), "rows": found}
    entries = list(catalogue.find([*map(location, request.folders)]))
    if not entries:
        searched = ", ".join(request.folders)
        return {"lines": [f"no dataset or other output of Hindcast below {searched}"], "rows": []}
    return {"lines": catalogue.listing(entries), "rows": [e.to_json() for e in entries]}


def show(result: Mapping[str, Any]) -> Shown:
    """Return the output that `run` made."""
    return Shown(**result)


COMMANDS: Final = {
    "list": Command(
        "hindcast list demo",
        List,
        "The list has sizes, digests and levels; damaged folders are listed with the reason.",
    ),
    "show": Command(
        "hindcast show demo/dataset",
        Show,
    ),
    "diff": Command(
        "hindcast diff demo/dataset other/dataset",
        Diff,
        "The exit code is 1 if anything differs.",
    ),
}
