"""RLScheduler's two tables: its rules in its simulator, beside the numbers that it publishes.

The sequences are those of its program. The rules that the tables leave out stand below those that
they have: F2 to F4 and `smallest`, which the program knows, WFP3 and UNICEF with their signs put
right, and SAF. `paper_agent` is the published agent, which is not run here.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.papers.calibration_table import (
    Progress,
    Row,
    require_two,
    scenario_table,
    table_of,
    table_row,
)
from hindcast.flows.papers.rlscheduler.published_tables import (
    BOUNDED_SLOWDOWN,
    POLICIES,
    SETTINGS,
    UTILISATION,
    printed,
)
from hindcast.flows.papers.rlscheduler.scenario import SCENARIO
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import run_episode

RECIPE: Final = "queue-rlscheduler"
LEFT_OUT: Final = ("f2", "f3", "f4", "smallest", "wfp3", "unicef", "saf")
_METRICS: Final = ("average_bounded_slowdown", "utilisation")
_JOBS: Final = 1024
_USED: Final = 10_000  # jobs of a log from which the program draws sequences
_SEED: Final = 1


def table_starts(count: int = 10, jobs: int = _JOBS) -> tuple[int, ...]:
    """Return the first jobs of the sequences of the published tables.

    The program draws them with the generator of Gym 0.1x: the seed is hashed, and the first eight
    bytes seed a Mersenne Twister.
    """
    digest = hashlib.sha512(str(_SEED).encode()).digest()[:8]
    words = [int.from_bytes(digest[i : i + 4], "little") for i in (0, 4)]
    rng = np.random.RandomState(words)  # legacy, but the published numbers depend on it
    return tuple(int(rng.randint(jobs, _USED - jobs - 1)) for _ in range(count))


def calibrate(
    policies: Mapping[str, Heuristic],
    episodes: int = 10,
    seed: int = 0,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Return one row per setting, policy and metric (see hindcast.flows.papers.calibration_table).

    All policies play the same `episodes` sequences, at least 2; the tables have 10. `policies` are
    the scenario's rules by name. Nothing is drawn from `seed`: the program's own seed is part of
    the tables. Utilisation is in percent.

    Raises TraceError if a log is missing.
    """
    require_two(episodes)
    recipe = load_recipe(RECIPE)
    workload = load_source(recipe)
    spec = SCENARIO.spec(recipe.config, recipe.objective)
    places = [[o.name for o in spec.outcomes].index(metric) for metric in _METRICS]
    names = [name for name in (*POLICIES, *LEFT_OUT) if name in policies]
    starts = table_starts(episodes)
    slowdowns, shares = printed(BOUNDED_SLOWDOWN), printed(UTILISATION)
    rows: list[Row] = []
    for done, ((trace, backfill), setting) in enumerate(SETTINGS.items()):
        config = replace(
            recipe.config, trace_name=trace, backfill=backfill, starts=starts, jobs=_JOBS
        )
        found = np.empty((len(names), len(starts), len(_METRICS)))
        for window in range(len(starts)):
            rng = np.random.default_rng(seed)
            instance = SCENARIO.instance(config, recipe.objective, workload, window, rng)
            for i, name in enumerate(names):
                rule = Behaviour(name, policies[name])
                found[i, window] = run_episode(SCENARIO, spec, instance, rule, rng).outcomes[places]
        for metric, name, scale, published in (
            (0, "average_bounded_slowdown", 1.0, slowdowns),
            (1, "utilisation_percent", 100.0, shares),
        ):
            for policy in (*POLICIES, *LEFT_OUT):
                values = scale * found[names.index(policy), :, metric] if policy in names else None
                number = published.get((setting, policy))
                number = None if number is None else scale * number
                rows.append(table_row(setting, policy, name, values, None, number))
        if progress is not None:
            progress(done + 1, len(SETTINGS))
    return table_of(rows)


def table(request: Any) -> dict[str, Any]:
    """Return the lines and rows of `hindcast calibrate`."""
    return scenario_table(request, calibrate)
