"""Training of one online agent with one seed or several, one step per seed.

    OUT                             with one seed, the checkpoint
    OUT/runs/<agent>-seed<seed>     with several seeds, one checkpoint each

Finished trainings are skipped.
"""

import dataclasses
from typing import Any

from hindcast.flows import runners
from hindcast.flows.commands import Call, directly
from hindcast.flows.progress import note
from hindcast.pipeline.storage.location import location


def train_seeds(request: Any, call: Call = directly) -> dict[str, Any]:
    """Train with each of the seeds of a request of `hindcast train-online`, through `call`.

    A request without `seeds` is one step with `seed`, whose checkpoint is `out`. Returns the result
    of that step, or {"runs": results} for several seeds.
    """
    if not request.seeds:
        (training,) = runners.calls([request], call)
        return training()
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.policies.online.training import settings_of
    from hindcast.policies.own_agents import online_agent_name

    given = request.agent and online_agent_name(request.agent)
    agent, _ = settings_of(load_recipe(request.recipe, request.overrides), given)
    seeds = tuple(dict.fromkeys(request.seeds))
    folders = [location(request.out) / "runs" / f"{agent}-seed{seed}" for seed in seeds]
    one = dataclasses.replace(request, seeds=(), runner=runners.LOCAL, address="")
    requests = [
        dataclasses.replace(one, out=str(folder), seed=seed)
        for folder, seed in zip(folders, seeds, strict=True)
    ]
    runs = []
    for number, training in enumerate(runners.calls(requests, call), start=1):
        note(f"training {number} of {len(seeds)}: {folders[number - 1].name}")
        runs.append(training())
    return {"runs": runs}
