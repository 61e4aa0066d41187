"""Workload of a recipe: generated, read from a raw trace, ingested before, or a dataset's own."""

import os
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import (
    RecipeError,
    TraceError,
    UnknownName,
    did_you_mean,
    nearest,
)
from hindcast.pipeline.recipes.recipe import NO_FILE, Recipe, TraceSource, refuse_file
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.storage.files import local_folder
from hindcast.pipeline.storage.location import is_remote, location, traces_folder
from hindcast.pipeline.workloads.folder import load_workload
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
    trace, origin = recipe.trace, recipe.origin
    if trace.format in {GENERATED, RECORDED, DECISIONS}:
        return Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance(trace.format))
    if origin is not None and origin.trace == trace and trace.format != SYNTHETIC:
        return load_workload(origin.folder / "workload", origin.workload_sha256)
    settings = reader_settings(trace, recipe.id)
    if trace.format == SYNTHETIC:
        from hindcast.pipeline.traces.synthetic import generate

        return generate(settings, generator(recipe.seed, "trace"))
    path = trace_path(recipe)
    if trace.format == INGESTED:
        return load_workload(path)
    from hindcast.pipeline.traces import FORMATS
    from hindcast.pipeline.traces.cache import read_trace

    with local_folder(path, FORMATS[trace.format].files) as copy:
        return read_trace(trace.format, copy, settings)


def reader_settings(trace: TraceSource, where: str) -> Any:
    """Return the settings of the trace's reader or generator; None for a reader that is given none.

    Raises RecipeError, which begins with `where`, if they are not those of the reader, and
    UnknownName if no reader has this format.
    """
    from hindcast.pipeline.traces import FORMATS

    of = f"{where}: trace.settings"
    if trace.format == SYNTHETIC:
        from hindcast.pipeline.traces.synthetic import SyntheticConfig

        return read_settings(SyntheticConfig, trace.settings, of)
    if trace.format == INGESTED:
        return None
    if trace.format not in FORMATS or FORMATS[trace.format].read is None:
        formats = [SYNTHETIC, INGESTED, GENERATED, *FORMATS]
        raise UnknownName(
            f"{where}: unknown trace.format {trace.format!r}; {did_you_mean(trace.format, formats)}"
        )
    if not trace.settings:
        return None
    kind = FORMATS[trace.format].settings
    if kind is None:
        raise RecipeError(f"{of}: the format {trace.format} has no settings")
    return read_settings(kind, trace.settings, of)


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
    here = path = location(recipe.trace.path)
    folder = None
    if not is_remote(path) and not path.is_absolute():
        if recipe.base is not None and (recipe.base / path).exists():
            return recipe.base / path
        folder = traces_folder()
        path = folder / path
    if path.exists():
        return path
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
