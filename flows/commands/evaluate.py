"""`hindcast evaluate`: score policies and checkpoints on windows of a recipe."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows import runners
from hindcast.flows.commands import Command, Shown, caveats_of
from hindcast.flows.progress import progress
from hindcast.pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Recipe, policies to score on it, and the folder for their scores."""

    recipe: p.Name = p.recipe()
    out: p.Folder = p.option("folder for scores.parquet and evaluation.json")
    policies: tuple[p.Name, ...] = p.option(
        "policies of `hindcast list --policies SCENARIO`, folders of checkpoints, or functions of "
        "your own: path/to/file.py:NAME or module:NAME; may be repeated (default: the recipe's "
        "policies)", default=(), flag="--policy", action="extend",
        metavar="POLICY",
    )  # fmt: skip
    split: p.Name = p.option("split to play: train, validation, test or all", default="test")
    overrides: tuple[p.Override, ...] = p.overrides()
    workers: p.Workers = p.workers()
    command: str = p.hidden("command line that is kept in evaluation.json", "")
    runner: p.Runner = p.runner()
    address: str = p.address()
    trace: p.Folder | None = p.trace()

    def settings(self) -> tuple[str, ...]:
        """Return the overrides of the recipe, that of its trace included."""
        return p.with_trace(self.overrides, self.trace)


def check(request: Request) -> None:
    """Raise InputError if the recipe is not valid, or a policy, checkpoint or split is unknown."""
    runners.check(request)
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.pipeline.recipes.workload_source import check_trace
    from hindcast.policies.entrants import entrants, evaluated_policies

    loaded = load_recipe(request.recipe, request.settings())
    check_trace(loaded, request.trace)
    loaded.windows(request.split)
    entrants(loaded, request.policies or evaluated_policies(loaded))


KNOWING: Final = "knows run times"  # kind of a policy, and the mark of one in the table


def run(request: Request) -> dict[str, Any]:
    """Score policies on a split of a recipe, by default the policies that the recipe names."""
    from hindcast.pipeline.evaluation import evaluate as evaluation
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.pipeline.workloads.caveats import to_json
    from hindcast.policies.entrants import entrants, evaluated_policies

    loaded = load_recipe(request.recipe, request.settings())
    names = request.policies or evaluated_policies(loaded)
    scored = entrants(loaded, names)
    with progress(f"evaluate on {request.split}") as tell:
        result = evaluation.evaluate(
            loaded, scored, split=request.split, out=location(request.out),
            workers=_elsewhere(request, loaded, names, scored) or request.workers,
            command=request.command, progress=tell,
        )  # fmt: skip
    return {
        "evaluation": str(result.folder),
        "split": request.split,
        "scores": result.rows,
        "means": dict(result.means),
        "knows_run_times": _knowing(loaded.scenario, scored, result.caveats),
        "caveats": to_json(result.caveats),
    }


def _knowing(scenario: str, scored: Sequence[Any], caveats: Sequence[Any]) -> list[str]:
    """Return the policies that know run times, or read requests where these are run times."""
    from hindcast.pipeline.scenarios.queue.requests import reads_requests
    from hindcast.pipeline.workloads.caveats import NO_LIMITS

    derived = scenario == "queue" and NO_LIMITS in {caveat.code for caveat in caveats}
    return [
        entrant.behaviour.name
        for entrant in scored
        if entrant.kind == KNOWING or (derived and reads_requests(entrant.behaviour.name))
    ]


def _elsewhere(request: Request, recipe: Any, names: Sequence[str], scored: Sequence[Any]) -> Any:
    """Return a function that has runs played on the runner of the context, if there is one."""
    runner = runners.running()
    if runner is None:
        return None
    from hindcast.flows.runners.runner import with_whole_paths
    from hindcast.flows.units import play_runs
    from hindcast.pipeline.evaluation.evaluate import claim_of
    from hindcast.policies import entrants

    absolute = with_whole_paths(request)
    fields = {name: absolute[name] for name in ("recipe", "split", "out")}
    fields["overrides"] = p.with_trace(absolute["overrides"], absolute["trace"])
    fields["policies"] = entrants.with_whole_paths(recipe, names)
    evaluation = json.dumps({**fields, "claim": claim_of(recipe, scored)})

    def elsewhere(items: Sequence[Any], tell: Callable[[Sequence[Any]], None]) -> None:
        for done, _ in runner.map_units(play_runs, items, evaluation=evaluation):
            tell(done)

    return elsewhere


def show(result: Mapping[str, Any]) -> Shown:
    """Return the mean of every policy."""
    means: Mapping[str, float] = result["means"]
    width = max(map(len, means), default=0)
    knowing = result.get("knows_run_times", ())  # older ledgers have none
    scores = [
        f"  {name:<{width}}  {mean:12,.2f}" + (f"  {KNOWING}" if name in knowing else "")
        for name, mean in means.items()
    ]
    head = f"{result['evaluation']}: means on {result['split']}"
    return Shown([head, *scores], warnings=caveats_of(result))


COMMANDS: Final = {"evaluate": Command(
    "hindcast evaluate binpack-synthetic-v1 --policy tetris agents/tp --out evaluations/demo",
    Request,
    "A suffix changes how a checkpoint acts:\n"
    "  FOLDER@1        draws its choices, as in training\n"
    "  FOLDER@RULE     on multicluster, a rule chooses the application and the agent the cluster\n"
    "  FOLDER@rollout  and RULE@rollout, on binpack, queue, multicluster and slots, look ahead",
    recorded="asked",
)}  # fmt: skip
