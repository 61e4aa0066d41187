"""True returns: mean returns of the evaluated policies in the simulator, on the log's windows.

The simulated policies are those whose returns are estimated, exploration included. An estimate for
an exploring policy is not exact for the greedy one.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.dataset.manifest import versions
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.statistics.intervals import Interval, mean_interval
from hindcast.pipeline.storage.files import read_json, read_parquet
from hindcast.pipeline.storage.run_files import EVALUATION, SCORES


def simulate(
    recipe: Recipe,
    policies: Sequence[Entrant],
    split: str,
    out: Path,
    *,
    seeds: int,
    command: str = "",
) -> pl.DataFrame:
    """Return scores of the policies on a split, from an earlier call if it played the same.

    Raises InputError if the workload or the split does not exist.
    """
    if (out / EVALUATION).exists() and _same(read_json(out / EVALUATION), recipe, policies, split):
        scores = read_parquet(out / SCORES)
        if all(_runs(scores, p) == (seeds if p.behaviour.stochastic else 1) for p in policies):
            return scores
    evaluate(recipe, policies, split=split, out=out, seeds=seeds, command=command)
    return read_parquet(out / SCORES)


def _same(description: object, recipe: Recipe, policies: Sequence[Entrant], split: str) -> bool:
    if not isinstance(description, dict):
        return False
    simulated = [
        (p.get("name"), p.get("digest"), p.get("epsilon", 0.0), p.get("temperature", 0.0))
        for p in description.get("policies", [])
    ]
    requested = [(p.behaviour, p.digest) for p in policies]
    return (
        description.get("digest") == recipe.digest
        and description.get("split") == split
        and description.get("versions") == versions()
        and simulated == [(b.name, digest, b.epsilon, b.temperature) for b, digest in requested]
    )


def _runs(scores: pl.DataFrame, policy: Entrant) -> int:
    """Return the number of runs per window of a policy."""
    return scores.filter(policy=policy.behaviour.name)["seed"].n_unique()


def true_return(scores: pl.DataFrame, policy: str, windows: NDArray[np.int64]) -> Interval:
    """Return the policy's mean return on these windows (E,), each counted as often as it is named.

    The interval is over the distinct windows.
    """
    returns = scores.filter((pl.col("policy") == policy) & (pl.col("metric") == "return"))
    by_window = dict(returns.group_by("window").agg(pl.col("value").mean()).rows())
    different, counts = np.unique(windows, return_counts=True)
    values = np.array([by_window[int(w)] for w in different])
    interval = mean_interval(values)
    return interval._replace(value=float(values @ counts / counts.sum()))
