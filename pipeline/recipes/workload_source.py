"""Workload of a recipe: generated, read from a raw trace, ingested before, or a dataset's own."""

import os
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import (
    DatasetError,
    RecipeError,
    TraceError,
    UnknownName,
    did_you_mean,
    nearest,
)
from hindcast.pipeline.recipes.recipe import NO_FILE, Origin, Recipe, TraceSource, refuse_file
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.storage.files import local_folder, sha256_file
from hindcast.pipeline.storage.location import is_remote, location, traces_folder
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload

SYNTHETIC: Final = "synthetic"
INGESTED: Final = "workload"  # path is a folder written by `hindcast ingest`
GENERATED: Final = "generated"  # the scenario draws every instance itself
RECORDED: Final = "history"  # decisions recorded elsewhere: the jobs are not known in advance
RECORD: Final = "recorded.parquet"  # what such a dataset was made from
ELSEWHERE: Final = "elsewhere"  # provenance["recorded"] of such a dataset
DECISIONS: Final = "decisions"  # a log of decisions of any kind, without a simulator
DECISION_TABLES: Final = ("censored.parquet", "quarantine.parquet")  # beside its record


def load_source(recipe: Recipe) -> Workload:
    """Return the recipe's workload.

    A recipe of a dataset's manifest has the workload in that dataset, and the trace that it names
    is not opened. Raises TraceError or DatasetError if the trace cannot be read, UnknownName for
    its format.
    """
    trace = recipe.trace
    if trace.format == SYNTHETIC:
        from hindcast.pipeline.traces.synthetic import SyntheticConfig, generate

        config = read_settings(SyntheticConfig, trace.settings, f"{recipe.id}: trace.settings")
        return generate(config, generator(recipe.seed, "trace"))
    if trace.format in {GENERATED, RECORDED, DECISIONS}:
        return Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance(trace.format))
    if recipe.origin is not None and recipe.origin.trace == trace:
        return own_workload(recipe.origin)
    if trace.format == INGESTED:
        from hindcast.pipeline.workloads.folder import load_workload

        return load_workload(trace_path(recipe))
    from hindcast.pipeline.traces import FORMATS

    if trace.format not in FORMATS or FORMATS[trace.format].read is None:
        formats = [SYNTHETIC, INGESTED, GENERATED, *FORMATS]
        raise UnknownName(
            f"{recipe.id}: unknown trace.format {trace.format!r}; "
            f"{did_you_mean(trace.format, formats)}"
        )
    from hindcast.pipeline.traces.cache import read_trace

    with local_folder(trace_path(recipe), FORMATS[trace.format].files) as copy:
        return read_trace(trace.format, copy, reader_settings(trace, recipe.id))


def reader_settings(trace: TraceSource, where: str) -> Any:
    """Return the settings of the trace's reader; None if the recipe gives none.

    Raises RecipeError, which begins with `where`, if they are not those of the reader.
    """
    from hindcast.pipeline.traces import FORMATS

    if not trace.settings:
        return None
    kind = FORMATS[trace.format].settings
    if kind is None:
        raise RecipeError(f"{where}: trace.settings: the format {trace.format} has no settings")
    return read_settings(kind, trace.settings, f"{where}: trace.settings")


def opens_trace(recipe: Recipe) -> bool:
    """Return whether the workload of a recipe is read from its trace.path."""
    trace, origin = recipe.trace, recipe.origin
    if trace.format in NO_FILE:
        return False
    return origin is None or origin.trace != trace


def check_trace(recipe: Recipe, given: str | None) -> None:
    """Raise RecipeError if --trace was given to a recipe that reads no trace."""
    if given is not None:
        refuse_file(recipe.trace, f"--trace is {given}", recipe.id)


def trace_path(recipe: Recipe) -> Path:
    """Return the file or folder of the recipe's trace; raise TraceError if there is none.

    A relative path is below the folder of the recipe's file, else below the folder of traces, else
    below the present folder, unless the recipe came with a dataset.
    """
    path, folder = location(recipe.trace.path), None
    if not is_remote(path) and not path.is_absolute():
        if recipe.base is not None and (recipe.base / path).exists():
            return recipe.base / path
        folder = traces_folder()
        path = folder / path
    if path.exists():
        return path
    here = location(recipe.trace.path)
    if folder is not None and recipe.origin is None and here.exists():
        return here.absolute()
    message = f"{recipe.id}: trace.path: {path}: no such file or folder"
    beside = [] if is_remote(path) or not path.parent.is_dir() else path.parent.iterdir()
    if close := nearest(path.name, [other.name for other in beside]):
        message += f"; did you mean {close!r}?"
    if folder is not None:
        state = f"is {folder}" if os.environ.get("HINDCAST_TRACES") else "is not set"
        if recipe.base is not None:
            message += f"; it is not below {recipe.base}, the recipe's folder, either"
        message += (
            f"; the variable HINDCAST_TRACES, which names the folder of traces, {state}; "
            "`hindcast traces` says where to get them"
        )
    raise TraceError(message)


def own_workload(origin: Origin) -> Workload:
    """Return the workload inside a dataset; raise DatasetError if its manifest names another."""
    from hindcast.pipeline.workloads.folder import load_workload

    folder = origin.folder / "workload"
    if folder.is_symlink():
        raise DatasetError(
            f"{folder}: this is a symbolic link, which is not followed inside a dataset; copy the "
            "files themselves (cp -rL)"
        )
    workload = load_workload(folder)
    if sha256_file(folder / "manifest.json") != origin.workload_sha256:
        raise DatasetError(
            f"{folder}: this workload has another SHA-256 than the dataset's manifest says; see "
            "`hindcast verify`"
        )
    return workload
