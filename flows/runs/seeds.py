"""Training of one online agent with one seed or several, one step per seed.

    OUT                             with one seed, the checkpoint
    OUT/runs/<agent>-seed<seed>     with several seeds, one checkpoint each

Finished trainings are skipped.
"""

import dataclasses
from typing import Any

from flows.commands import Call, directly
from flows.progress import note
from pipeline.storage.location import location


def train_seeds(request: Any, call: Call = directly) -> dict[str, Any]:
    """Train with each of the seeds of a request of `hindcast train-online`, through `call`.

    A request without `seeds` is one step with `seed`, whose checkpoint is `out`. Returns the result
    of that step, or {"runs": results} for several seeds.
    """
    if not request.seeds:
        return call(request)
    from pipeline.recipes.loading import load_recipe
    from policies.online.training import settings_of

    agent, _ = settings_of(load_recipe(request.recipe, request.overrides), request.agent)
    seeds = tuple(dict.fromkeys(request.seeds))
    runs = []
    for number, seed in enumerate(seeds, start=1):
        folder = location(request.out) / "runs" / f"{agent}-seed{seed}"
        note(f"training {number} of {len(seeds)}: {folder.name}")
        runs.append(call(dataclasses.replace(request, out=str(folder), seed=seed, seeds=())))
    return {"runs": runs}
