"""Datasets in the formats of other tools: `export` writes one, EXPORTS lists the formats.

A format is one file of this package with a function

    export(dataset: Dataset, out: Path, candidates: int | None, tell: Progress) -> ExportResult

and one entry in EXPORTS. The function of a format that can hold one split, whose entry names its
usual `split`, takes the name of a split, or "all", as a last argument. A folder or file appears
under its name only when it is complete. Memory is bounded by a row group of a part, whatever the
size of the dataset.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from hindcast.pipeline.errors import InputError, StorageError, unknown_name
from hindcast.pipeline.plugins import Registry

Progress: TypeAlias = Callable[[int, int], None]  # (parts done, parts in all)


@dataclass(frozen=True)
class Export:
    """Format that a dataset can be exported to.

    Attributes:
        name: Name of the format, as in `hindcast export --to NAME`.
        module: Module with the function `export`.
        description: Description of the format, for `--help`.
        lost: Parts of a dataset that the format cannot hold.
        folder: True if the export is a folder, False if it is one file.
        pads: True if every decision gets the same number K of candidates, set by `candidates`.
        split: Split that is written unless another is asked for: a name, or "all". Empty for a
            format that always holds the whole dataset.
    """

    name: str
    module: str
    description: str
    lost: str
    folder: bool = True
    pads: bool = False
    split: str = ""


@dataclass(frozen=True)
class ExportResult:
    """Result of an export.

    Attributes:
        path: The folder or file that was written.
        files: Number of files.
        bytes: Their total size.
        notes: Sentences that a user of the export needs to know.
    """

    path: Path
    files: int
    bytes: int
    notes: tuple[str, ...] = ()


_PADDED_LOSS: Final = "lists of different lengths (padded to K)"

EXPORTS: Final = Registry("exports", {
    "huggingface": Export(
        "huggingface",
        "hindcast.pipeline.exports.huggingface",
        "folder for Hugging Face datasets, with configs decisions and episodes",
        "the manifest with its checksums, and the workload: `verify` needs the dataset itself",
        split="all",
    ),
    "croissant": Export(
        "croissant",
        "hindcast.pipeline.exports.croissant",
        "the Parquet files of the dataset with croissant.json, JSON-LD of Croissant 1.1",
        "the manifest and the workload: `verify` needs the dataset itself",
    ),
    "minari": Export(
        "minari",
        "hindcast.pipeline.exports.minari",
        "HDF5 in the layout of Minari; MINARI_DATASETS_PATH is set to PATH",
        f"{_PADDED_LOSS}, columns by name, licence, citation, checksums, recipe",
        pads=True,
        split="train",
    ),
    "d3rlpy": Export(
        "d3rlpy",
        "hindcast.pipeline.exports.d3rlpy",
        "folder of .npy arrays for MDPDataset; "
        "hindcast.policies.offline.d3rlpy_replay_buffer reads it",
        f"{_PADDED_LOSS}, columns by name, outcomes, reward terms; rewards are float32",
        pads=True,
        split="train",
    ),
    "d4rl": Export(
        "d4rl",
        "hindcast.pipeline.exports.d4rl",
        "one HDF5 file of transitions under D4RL's names",
        f"{_PADDED_LOSS}, outcomes of episodes",
        folder=False,
        pads=True,
        split="train",
    ),
    "csv": Export(
        "csv",
        "hindcast.pipeline.exports.csv",
        "episodes.csv, decisions.csv, candidates.csv (one row per candidate)",
        "images, column types, NaN apart from null in some readers",
        split="all",
    ),
    "dsjson": Export(
        "dsjson",
        "hindcast.pipeline.decisions.exports.dsjson",
        "one file of VowpalWabbit's dsjson, which `hindcast ingest decisions` reads",
        "images, identifiers, infeasible candidates, splits, simulated times, "
        "which numbers were missing, decisions without reward, draws of propensities, single terms "
        "of a reward",
        folder=False,
        split="all",
    ),
    "obp": Export(
        "obp",
        "hindcast.pipeline.decisions.exports.obp",
        "one .npz of Open Bandit Pipeline, of a log of decisions with at most 1,000 arms",
        "infeasible candidates, splits, decisions without reward, draws of propensities, single "
        "terms of a reward, which columns were one category",
        folder=False,
        split="all",
    ),
})  # fmt: skip


def export(
    dataset: Path | str,
    to: str,
    out: Path | str,
    *,
    candidates: int | None = None,
    split: str | None = None,
    progress: Progress | None = None,
) -> ExportResult:
    """Write a dataset in the format `to` under the name `out`.

    Args:
        dataset: Folder of the dataset.
        to: Name of a format in EXPORTS.
        out: Folder or file to write; it must not exist, or be an empty folder.
        candidates: Number K of candidates per decision, for a format that pads; by default the
            largest number in the dataset, so that none is cut.
        split: Name of the split to write, or "all"; by default the format's, see EXPORTS.
        progress: Called with the finished and the total number of parts.

    Returns:
        The path, its size, and notes.

    Raises:
        UnknownName: There is no such format.
        InputError: The format cannot hold the dataset or a part of it, or a library is missing.
        DatasetError: The dataset has no episode of the split.
        StorageError: `out` exists already.
    """
    form = known_export(to)
    if candidates is not None and not form.pads:
        raise InputError(
            f"--candidates {candidates}: {to} keeps every candidate; the option is for "
            + ", ".join(e.name for e in EXPORTS.values() if e.pads)
        )
    if candidates is not None and candidates < 1:
        raise InputError(f"--candidates {candidates}: expected at least 1")
    if split is not None and not form.split:
        raise InputError(
            f"--split {split}: {to} holds the whole dataset; the option is for "
            + ", ".join(e.name for e in EXPORTS.values() if e.split)
        )

    import hindcast.pipeline.dataset as ds
    from hindcast.pipeline.storage.location import location
    from hindcast.pipeline.storage.locks import writing

    opened, out = ds.open(dataset), location(out)
    _refuse_inside(opened.folder, out)
    write = importlib.import_module(form.module).export
    with writing(out, beside=True):
        of_split = (split or form.split,) if form.split else ()
        result = write(opened, out, candidates, progress or _silent, *of_split)
    assert isinstance(result, ExportResult)
    return result


def known_export(name: str) -> Export:
    """Return the format of that name; raise UnknownName with the nearest one otherwise."""
    if name not in EXPORTS:
        raise unknown_name("format", name, EXPORTS)
    return EXPORTS[name]


def _refuse_inside(folder: Path, out: Path) -> None:
    """Raise StorageError if the export would be inside the dataset."""
    from hindcast.pipeline.storage.location import is_remote

    if is_remote(folder) or is_remote(out):
        inside = f"{out}/".startswith(f"{folder}/")
    else:
        inside = out.resolve().is_relative_to(folder.resolve())
    if inside:
        raise StorageError(f"{out}: is inside the dataset {folder}; choose another --out")


def _silent(_done: int, _total: int) -> None:
    """Report no progress."""
