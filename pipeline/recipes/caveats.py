"""Caveats of a recipe on its workload, before anything is played."""

from collections.abc import Iterable
from typing import Final

from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.splits import sample
from hindcast.pipeline.recipes.workload_source import RECORDED, SYNTHETIC
from hindcast.pipeline.simulation.scenario import DRAWN_WINDOWS, Scenario
from hindcast.pipeline.workloads import caveats
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.schema import Workload

_DRAWN: Final = (SYNTHETIC, RECORDED)  # formats of workloads with tasks that are no trace


def trace_caveats(
    recipe: Recipe, scenario: Scenario, workload: Workload, windows: Iterable[int]
) -> tuple[Caveat, ...]:
    """Return caveats of the trace, from its reader, and of its use by the recipe on these windows.

    A workload that is drawn has no such caveats.
    """
    of_trace = caveats.of_provenance(workload.provenance)
    if workload.tasks.is_empty() or workload.provenance.format in _DRAWN:
        return of_trace
    config = recipe.config
    n_windows = scenario.windows(config, workload)
    windows_used = {w for w in windows if w < n_windows}
    if n_windows != DRAWN_WINDOWS:  # drawn windows have the whole trace to draw from
        of_trace += caveats.trace_used(len(windows_used), n_windows)
    if scenario.caveats is not None:
        of_trace += scenario.caveats(config, workload)
    if scenario.demand is None or not windows_used:
        return of_trace
    demands = [scenario.demand(config, workload, window) for window in sample(windows_used)]
    work, rounded = sum(d.work for d in demands), sum(d.rounded for d in demands)
    return of_trace + caveats.rounding(work, rounded)
