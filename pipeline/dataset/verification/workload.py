"""Verification of the workload of a dataset: its files, its lineage, and its source.

The source is where the tasks came from. A synthetic workload is generated again. A raw trace is
read again if a person names it, or if it is where the recipe says, below $HINDCAST_TRACES, and has
the SHA-256 that the provenance says. A manifest may be foreign, so no other place is opened.
"""

import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.errors import DatasetError, InputError, StorageError, VerificationFailed
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import (
    DECISIONS,
    ELSEWHERE,
    GENERATED,
    INGESTED,
    RECORDED,
    SYNTHETIC,
    load_source,
    reader_settings,
)
from hindcast.pipeline.storage.files import local_folder, sha256_file
from hindcast.pipeline.storage.location import is_remote, traces_folder
from hindcast.pipeline.workloads.folder import check_folder, load_workload
from hindcast.pipeline.workloads.schema import Provenance, SourceFile, Workload

# What no check can find out about decisions that no simulator made, by their trace format.
_UNSIMULATED: Final[Mapping[str, str]] = {
    RECORDED: "the history file, and how its decisions were drawn",
    DECISIONS: "how the decisions were drawn, and what other choices would have led to",
}


def check_workload(dataset: Dataset, workload: Workload) -> None:
    """Check that the files and the provenance of the workload are those of the manifest.

    Raises VerificationFailed for the first claim that does not hold.
    """
    manifest, where = dataset.manifest, dataset.folder / mf.WORKLOAD
    if sha256_file(where / mf.NAME) != manifest.workload_sha256:
        raise VerificationFailed(
            f"{where}: this workload has another SHA-256 than the manifest says"
        )
    try:
        check_folder(where, workload)
    except DatasetError as error:
        raise VerificationFailed(str(error)) from error
    lineage: dict[str, Any] = json.loads(json.dumps(asdict(workload.provenance)))
    claimed = dict(manifest.provenance)
    if manifest.recipe.trace.format == RECORDED:
        lineage["recorded"] = ELSEWHERE
    elif manifest.recipe.trace.format == DECISIONS:  # the rest is checked with the record
        claimed = {key: claimed.get(key) for key in lineage}
    if claimed != lineage:
        raise VerificationFailed(
            f"{dataset.folder / mf.NAME}: the provenance differs from that of the workload"
        )


def check_source(
    dataset: Dataset, workload: Workload, trace: Path | None
) -> tuple[str, str | None]:
    """Compare the workload with its source, as far as that is at hand.

    `trace` is the raw trace, if a person named it. Returns what was done in words, and what was not
    compared, or None. Raises VerificationFailed if the workload differs from its source, and
    DatasetError if `trace` is not the file or folder that it came from.
    """
    recipe, where = dataset.recipe, dataset.folder / mf.WORKLOAD
    kind = recipe.trace.format
    if kind == DECISIONS:
        return "since the decisions were made elsewhere", (
            None if trace else "the log itself, which is not at hand (--trace)"
        )
    if trace is not None and kind in {SYNTHETIC, GENERATED, RECORDED}:
        raise DatasetError(
            f"{trace}: the workload of {dataset.folder} is {kind!r}, so no raw trace was read for "
            "it; leave the trace out"
        )
    if kind not in {INGESTED, workload.provenance.format}:
        raise VerificationFailed(
            f"{where / mf.NAME}: provenance.format is {workload.provenance.format!r}, the recipe's "
            f"trace.format is {kind!r}"
        )
    if kind in {GENERATED, RECORDED}:
        expected = load_source(recipe)
        if kind == RECORDED:  # its provenance is checked with the recorded file
            expected = Workload(expected.tasks, workload.provenance)
        _compare(where, workload, expected, "a recipe without a trace has")
        return "as the recipe says", None
    if kind == SYNTHETIC:
        jobs = int(workload.tasks["job"].n_unique())
        if recipe.trace.settings.get("n_jobs", jobs) != jobs:  # bounds what is generated
            raise VerificationFailed(
                f"{where / 'tasks.parquet'}: this table has {jobs:,} jobs, the recipe generates "
                f"{recipe.trace.settings['n_jobs']}"
            )
        try:
            expected = load_source(recipe)
        except InputError as error:
            raise VerificationFailed(f"{dataset.folder / mf.NAME}: {error}") from error
        _compare(where, workload, expected, "the recipe's seed gives")
        return "generated again", None
    path = trace or _at_hand(recipe)
    if path is None:
        return "not compared with its source", "the raw trace, which is not at hand (--trace)"
    expected_or_none = _read_again(recipe, path, workload.provenance)
    if expected_or_none is None:
        if trace is not None:
            raise DatasetError(
                f"{trace}: this is not the trace of {dataset.folder}: its files have other SHA-256 "
                "than the provenance says"
            )
        return "not compared with its source", f"the raw trace, since {path} holds another one"
    _compare(where, workload, expected_or_none, f"{path} gives")
    return f"read again from {path}", None


def check_recorded(dataset: Dataset, trace: Path | None) -> tuple[tuple[str, str], str] | None:
    """Return the check of decisions recorded elsewhere, and what it cannot find; None for others.

    The reader of their format makes it. `trace` is the log of decisions that they came from, if a
    person named it.
    """
    from hindcast.pipeline.traces import FORMATS

    kind = dataset.recipe.trace.format
    if kind not in _UNSIMULATED:
        return None
    if kind not in FORMATS:
        raise InputError(
            f"{dataset.folder}: decisions of the trace format {kind!r} cannot be verified, "
            "because no reader of it is installed"
        )
    check = importlib.import_module(FORMATS[kind].recorded).check  # compiles kernels
    found = check(dataset, trace) if kind == DECISIONS else check(dataset)
    return found, _UNSIMULATED[kind]


def _at_hand(recipe: Recipe) -> Path | None:
    """Return the trace of a recipe if it is below the folder of traces, else None."""
    path = PurePosixPath(recipe.trace.path)
    if not path.parts or path.is_absolute() or ".." in path.parts or "://" in recipe.trace.path:
        return None
    folder = traces_folder()
    found = folder / recipe.trace.path
    return found if not is_remote(folder) and found.exists() else None


def _read_again(recipe: Recipe, path: Path, provenance: Provenance) -> Workload | None:
    """Return the workload of a trace; None if the files there are not those of the provenance."""
    from hindcast.pipeline.traces import FORMATS

    if recipe.trace.format == INGESTED:
        found = load_workload(path)
        return found if found.provenance == provenance else None
    if recipe.trace.format not in FORMATS:  # of a plug-in that is not installed
        return None
    form = FORMATS[recipe.trace.format]
    with local_folder(path, form.files) as copy:
        if form.read is None or not all(_is_same(copy, source) for source in provenance.files):
            return None
        found = form.reading(copy, reader_settings(recipe.trace, recipe.id))[0]
    if len(found.provenance.files) == len(provenance.files):  # they may have other names here
        same = replace(found.provenance, files=provenance.files)
        found = replace(found, provenance=same)
    return found


def _is_same(path: Path, source: SourceFile) -> bool:
    """Return whether the trace at `path` has this raw file."""
    if path.is_dir():
        if Path(source.name).name != source.name:
            return False
        path = path / source.name
    elif path.name != source.name == Path(source.name).name:
        beside = path.with_name(source.name)
        path = beside if beside.is_file() else path
    try:
        return path.stat().st_size == source.bytes and sha256_file(path) == source.sha256
    except StorageError:
        raise
    except (OSError, InputError):
        return False


def _compare(where: Path, found: Workload, expected: Workload, said: str) -> None:
    """Raise VerificationFailed for the first difference of two workloads."""
    for name in ("tasks", "machines"):
        one, two = getattr(found, name), getattr(expected, name)
        path = where / f"{name}.parquet"
        if one is None or two is None:
            if one is not two:
                raise VerificationFailed(
                    f"{path}: {said} {'a' if one is None else 'no'} table of {name}"
                )
        elif one.schema != two.schema:
            raise VerificationFailed(f"{path}: the columns differ from those that {said}")
        elif one.height != two.height:
            raise VerificationFailed(
                f"{path}: this table has {one.height:,} rows, {said} {two.height:,}"
            )
        else:
            for column in two.columns:
                differs = one[column].ne_missing(two[column])
                if differs.any():
                    row = int(differs.arg_max() or 0)
                    raise VerificationFailed(
                        f"{path}: row {row}: {column} is {one[column][row]!r}, {said} "
                        f"{two[column][row]!r}"
                    )
    if asdict(found.provenance) != asdict(expected.provenance):
        raise VerificationFailed(
            f"{where / mf.NAME}: the provenance differs from the one that {said}"
        )
