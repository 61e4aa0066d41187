"""One online agent, trained with one seed or with several, each a step of its own.

OUT                               with one seed: the checkpoint
OUT/runs/<agent>-seed<seed>       with several: a checkpoint each; what is finished is left alone
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows import steps
from flows.progress import note
from flows.stages import Call, directly
from pipeline.storage.location import location


def train_seeds(
    recipe: str,
    out: Path | str,
    seeds: Sequence[int] = (),
    call: Call = directly,
    *,
    seed: int = 0,
    **arguments: Any,
) -> dict[str, Any]:
    """Train with each of the seeds through `call`; with `seed` into `out` where none are given.

    The result of the step, or {"runs": results} of several. `arguments` are those of the step.
    """
    if not seeds:
        return call(steps.train_online, recipe=recipe, out=str(out), seed=seed, **arguments)
    from pipeline.recipes.loading import load_recipe
    from policies.online.training import settings_of

    agent, _ = settings_of(load_recipe(recipe, arguments.get("overrides", ())), arguments["agent"])
    runs = []
    for number, one in enumerate(seeds, start=1):
        folder = location(out) / "runs" / f"{agent}-seed{one}"
        note(f"training {number} of {len(seeds)}: {folder.name}")
        runs.append(call(steps.train_online, recipe=recipe, out=str(folder), seed=one, **arguments))
    return {"runs": runs}
