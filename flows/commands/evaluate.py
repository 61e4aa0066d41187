"""`hindcast evaluate`: score policies and checkpoints on windows of a recipe."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flows import parser as p
from flows.commands import Command, Shown, caveats_of
from flows.progress import progress
from pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Recipe, policies to score on it, and the folder for their scores."""

    recipe: p.Name = p.recipe()
    out: p.Folder = p.option("folder for scores.parquet and evaluation.json")
    policies: tuple[p.Name, ...] = p.option(
        "policies of `hindcast list --policies SCENARIO`, or folders of checkpoints; may be "
        "repeated (default: the recipe's policies)", default=(), flag="--policy", action="extend",
        metavar="POLICY",
    )  # fmt: skip
    split: p.Name = p.option("split to play: train, validation, test or all", default="test")
    overrides: tuple[p.Override, ...] = p.overrides()
    workers: p.Workers = p.workers()
    command: str = p.hidden("command line that is kept in evaluation.json", "")


def check(request: Request) -> None:
    """Raise InputError if the recipe is not valid, or a policy, checkpoint or split is unknown."""
    from pipeline.recipes.loading import load_recipe
    from policies.entrants import entrants, own_policies

    loaded = load_recipe(request.recipe, request.overrides)
    loaded.windows(request.split)
    entrants(loaded, request.policies or own_policies(loaded))


def run(request: Request) -> dict[str, Any]:
    """Score policies on a split of a recipe, by default the policies that the recipe names."""
    from pipeline.evaluation import evaluate as evaluation
    from pipeline.recipes.loading import load_recipe
    from pipeline.workloads.caveats import to_json
    from policies.entrants import entrants, own_policies

    loaded = load_recipe(request.recipe, request.overrides)
    scored = entrants(loaded, request.policies or own_policies(loaded))
    with progress(f"evaluate on {request.split}") as tell:
        result = evaluation.evaluate(
            loaded, scored, split=request.split, out=location(request.out),
            workers=request.workers, command=request.command, progress=tell,
        )  # fmt: skip
    return {
        "evaluation": str(result.folder),
        "split": request.split,
        "scores": result.rows,
        "means": dict(result.means),
        "caveats": to_json(result.caveats),
    }


def show(result: Mapping[str, Any]) -> Shown:
    """Return the mean of every policy."""
    means: Mapping[str, float] = result["means"]
    width = max(map(len, means), default=0)
    scores = [f"  {name:<{width}}  {mean:12,.2f}" for name, mean in means.items()]
    head = f"{result['evaluation']}: means on {result['split']}"
    return Shown([head, *scores], warnings=caveats_of(result))


COMMANDS: Final = {"evaluate": Command(
    "hindcast evaluate binpack-synthetic-v1 --policy tetris agents/tp --out evaluations/demo",
    Request,
    "A suffix changes how a checkpoint acts:\n"
    "  FOLDER@1        draws its choices, as in training\n"
    "  FOLDER@RULE     on multicluster, a rule chooses the application and the agent the cluster\n"
    "  FOLDER@rollout  on binpack, looks ahead, as the policy `rollout` does with the rules",
    recorded=True,
)}  # fmt: skip
