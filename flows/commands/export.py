"""`hindcast export`: write a dataset in the format of another tool."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown, listed
from hindcast.flows.progress import progress
from hindcast.pipeline.exports import EXPORTS
from hindcast.pipeline.storage.location import location

_WEIGHTS: Final = "weights"
_PASTE: Final = "weights of a linear checkpoint in the raw features, as TOML or JSON to paste"


@dataclass(frozen=True)
class Request:
    """Dataset to export, the format, and the path of the output."""

    dataset: p.Folder = p.argument("folder of a dataset, or of a linear checkpoint for weights")
    to: p.Name = p.option("format, one of those above", metavar="FORMAT")
    out: p.Folder = p.option("new folder, or new file if the format is one file", metavar="PATH")
    candidates: p.Count | None = p.option(
        "candidates of every decision, for formats that pad (default: as many as the largest "
        "decision has); a larger decision keeps the chosen one and K - 1 drawn at random",
        default=None,
        metavar="K",
    )
    split: str | None = p.option(
        "split to write: train, validation, test or all (default: train for minari, d3rlpy and "
        "d4rl, whose readers take everything; all for the others)",
        default=None,
        metavar="NAME",
    )


def check(request: Request) -> None:
    """Raise InputError if the format is unknown."""
    from hindcast.pipeline.exports import known_export

    if request.to != _WEIGHTS:
        known_export(request.to)


def run(request: Request) -> dict[str, Any]:
    """Write a dataset in the format of another tool; the result lists what the format loses."""
    from hindcast.pipeline import exports

    if request.to == _WEIGHTS:
        from hindcast.policies.networks.linear import write_weights

        table, out = write_weights(location(request.dataset), location(request.out)), request.out
        return {
            "export": out, "format": _WEIGHTS, "files": 1, "bytes": location(out).stat().st_size,
            "notes": [table["how"]], "lost": "how the weights were learned",
        }  # fmt: skip
    with progress(f"export to {request.to}") as tell:
        result = exports.export(
            location(request.dataset), request.to, location(request.out),
            candidates=request.candidates, split=request.split, progress=tell,
        )  # fmt: skip
    return {
        "export": str(result.path),
        "format": request.to,
        "files": result.files,
        "bytes": result.bytes,
        "notes": list(result.notes),
        "lost": EXPORTS[request.to].lost,
    }


def show(result: Mapping[str, Any]) -> Shown:
    """Return the files that were written and the content that the format cannot hold."""
    count = "1 file" if result["files"] == 1 else f"{result['files']} files"
    head = f"{result['export']}: {result['format']}, {count}, {result['bytes'] / 1e6:,.1f} MB"
    notes = [f"  {note}" for note in result["notes"]]
    return Shown([head, *notes, f"  not in it: {result['lost']}"])


COMMANDS: Final = {"export": Command(
    "hindcast export demo/dataset --to huggingface --out demo/huggingface",
    Request,
    lambda: f"{listed('formats', EXPORTS, 14)}\n  {_WEIGHTS:<14}{_PASTE}",
)}  # fmt: skip
