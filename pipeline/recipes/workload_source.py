"""Workload of a recipe: generated, read from a raw trace, or ingested before."""

from typing import Final

import polars as pl

from pipeline.errors import UnknownName, did_you_mean
from pipeline.recipes.loading import traces_folder
from pipeline.recipes.recipe import Recipe
from pipeline.recipes.settings import read_settings
from pipeline.simulation.seeds import generator
from pipeline.storage.files import local_folder
from pipeline.storage.location import is_remote, location
from pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload

SYNTHETIC: Final = "synthetic"
INGESTED: Final = "workload"  # path is a folder written by `hindcast ingest`
GENERATED: Final = "generated"  # the scenario draws every instance itself
RECORDED: Final = "history"  # decisions recorded elsewhere: the jobs are not known in advance


def load_source(recipe: Recipe) -> Workload:
    """Return the recipe's workload.

    Raises TraceError or DatasetError if the trace cannot be read, UnknownName for its format.
    """
    trace = recipe.trace
    if trace.format == SYNTHETIC:
        from pipeline.traces.synthetic import SyntheticConfig, generate

        config = read_settings(SyntheticConfig, trace.settings, f"{recipe.id}: trace.settings")
        return generate(config, generator(recipe.seed, "trace"))
    if trace.format in {GENERATED, RECORDED}:
        return Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance(trace.format))
    path = location(trace.path)
    if not is_remote(path) and not path.is_absolute():
        path = traces_folder() / path
    if trace.format == INGESTED:
        from pipeline.workloads.folder import load_workload

        return load_workload(path)
    from pipeline.traces import FORMATS

    read = FORMATS[trace.format].read if trace.format in FORMATS else None
    if read is None:
        known = [SYNTHETIC, INGESTED, GENERATED, *FORMATS]
        raise UnknownName(
            f"{recipe.id}: unknown trace.format {trace.format!r}; "
            f"{did_you_mean(trace.format, known)}"
        )
    with local_folder(path) as copy:
        workload, _quarantined = read(copy)
    return workload
