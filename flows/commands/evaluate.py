"""`hindcast evaluate` and `plan`: score policies on windows of a recipe, and say so beforehand."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from hindcast.flows import parser as p
from hindcast.flows import runners
from hindcast.flows.commands import Command, Shown, cautions_in, caveats_of
from hindcast.flows.progress import progress
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.storage.location import location

_UNTIL: Final = p.option(
    "play a quarter of the windows at a time, and stop when the two policies are told apart; for "
    "windows that are drawn", default=None,
)  # fmt: skip


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
    plan: p.Folder | None = p.option(
        "plan that `hindcast plan` wrote; its policies are scored unless --policy names others, "
        "under its settings unless --set gives others",
        default=None, metavar="FILE",
    )  # fmt: skip
    until: Literal["decided"] | None = _UNTIL
    jobs: Annotated[int, p.Bounds("K", ge=0)] | None = p.option(
        "window whose schedule under every policy is written to jobs/POLICY.parquet, see "
        "`hindcast schedule`", default=None,
    )  # fmt: skip

    def settings(self) -> tuple[str, ...]:
        """Return the overrides of the recipe, that of its trace included."""
        return p.with_trace(self.overrides, self.trace)


@dataclass(frozen=True)
class Plan:
    """Recipe, policies and split of a later evaluation."""

    recipe: p.Name = p.recipe()
    out: p.Folder = p.option("file to write, such as plan.json; it must not exist", metavar="FILE")
    policies: tuple[p.Name, ...] = p.option(
        "agents, and the policies to compare them with, as for `hindcast evaluate`; may be "
        "repeated (default: the recipe's policies)", default=(), flag="--policy", action="extend",
        metavar="POLICY",
    )  # fmt: skip
    split: p.Name = p.option("split that will be played", default="test")
    overrides: tuple[p.Override, ...] = p.overrides()
    until: Literal["decided"] | None = _UNTIL


def check(request: Request | Plan) -> None:
    """Raise InputError if the recipe is not valid, or a policy, checkpoint or split is unknown."""
    if isinstance(request, Plan):
        return
    runners.check(request)
    request = _as_planned(request)
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.pipeline.recipes.workload_source import check_trace
    from hindcast.policies.entrants import entrants

    loaded = load_recipe(request.recipe, request.settings())
    check_trace(loaded, request.trace)
    loaded.windows(request.split)
    plan = _plan(request)
    scored = entrants(loaded, _names(request, loaded, plan))
    if _decides(request, plan):
        from hindcast.pipeline.evaluation.until import DECIDED, check_until

        if request.runner != "local":
            raise InputError(
                f"--until {DECIDED} plays in this process; leave out --runner {request.runner}"
            )
        check_until(loaded, scored, request.split)


KNOWING: Final = "knows run times"  # kind of a policy, and the mark of one in the table


def run(request: Request | Plan) -> dict[str, Any]:
    """Score policies on a split of a recipe, by default the policies that the recipe names.

    A plan is written and nothing is played.
    """
    if isinstance(request, Plan):
        return _write_plan(request)
    from hindcast.pipeline.evaluation import evaluate as evaluation
    from hindcast.pipeline.evaluation.plans import kept
    from hindcast.pipeline.evaluation.summary.cautions import cautions_of
    from hindcast.pipeline.evaluation.summary.planned import planned_lines
    from hindcast.pipeline.evaluation.until import decision
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.pipeline.workloads.caveats import to_json
    from hindcast.policies.entrants import entrants

    request = _as_planned(request)
    loaded, plan = load_recipe(request.recipe, request.settings()), _plan(request)
    names = _names(request, loaded, plan)
    scored = entrants(loaded, names)
    decide = _decides(request, plan)
    if request.jobs is not None:
        from hindcast.pipeline.schedules.windows import require_window, write_window

        played = evaluation.make_job(loaded, request.split, location(request.out))
        require_window(played, request.jobs, "--jobs")
    of_plan = None
    if plan is not None:
        of_plan = kept(plan, loaded, scored, request.split, decide=decide)
    with progress(f"evaluate on {request.split}") as tell:
        result = evaluation.evaluate(
            loaded, scored, split=request.split, out=location(request.out),
            workers=_elsewhere(request, loaded, names, scored) or request.workers,
            command=request.command, plan=of_plan, decide=decide, progress=tell,
        )  # fmt: skip
    written = []
    if request.jobs is not None:
        written = write_window(played, (each.behaviour for each in scored), request.jobs)
    return {
        "evaluation": str(result.folder),
        "split": request.split,
        "scores": result.rows,
        "means": dict(result.means),
        "knows_run_times": _knowing(loaded.scenario, scored, result.caveats),
        "cautions": to_json(cautions_of(result.folder)),
        "caveats": to_json(result.caveats),
        **({"jobs": list(map(str, written))} if written else {}),
        **({} if of_plan is None else {"planned": planned_lines(result.folder)}),
        **({} if result.until is None else {"until": decision(result.until)}),
    }


def _write_plan(request: Plan) -> dict[str, Any]:
    from hindcast.pipeline.evaluation.plans import make_plan, write_plan
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.policies.entrants import entrants, evaluated_policies

    loaded = load_recipe(request.recipe, request.overrides)
    names = request.policies or evaluated_policies(loaded)
    scored = entrants(loaded, names)
    plan = make_plan(
        loaded, names, scored, request.split,
        overrides=request.overrides, decide=request.until is not None,
    )  # fmt: skip
    write_plan(location(request.out), plan)
    agents = dict.fromkeys(each["group"] for each in plan["policies"] if each["agent"])
    return {"plan": request.out, "agents": list(agents), "split": request.split,
            "looks": plan["looks"], "recipe": loaded.id}  # fmt: skip


def _plan(request: Request) -> dict[str, Any] | None:
    from hindcast.pipeline.evaluation.plans import read_plan

    return None if request.plan is None else read_plan(location(request.plan))


def _as_planned(request: Request) -> Request:
    """Return the request with the settings of its plan, unless it has settings of its own."""
    plan = _plan(request)
    if plan is None or request.overrides:
        return request
    return replace(request, overrides=tuple(plan.get("overrides", ())))  # an older plan has none


def _decides(request: Request, plan: Mapping[str, Any] | None) -> bool:
    """Return whether windows are played until it is decided, by the request or by its plan."""
    return request.until is not None or (plan is not None and "until" in plan)


def _names(request: Request, recipe: Any, plan: Mapping[str, Any] | None) -> Sequence[str]:
    """Return the words that name the policies: the request's, the plan's, or the recipe's."""
    from hindcast.policies.entrants import evaluated_policies

    return request.policies or (plan["names"] if plan else evaluated_policies(recipe))


def _knowing(scenario: str, scored: Sequence[Any], caveats: Sequence[Any]) -> list[str]:
    """Return the policies that know run times, or read requests where these are run times."""
    from hindcast.pipeline.evaluation.requests import reads_requests
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
    """Return cautions and the mean of every policy; of a plan, what it compares."""
    if "plan" in result:
        return _show_plan(result)
    means: Mapping[str, float] = result["means"]
    width = max(map(len, means), default=0)
    knowing = result.get("knows_run_times", ())  # older ledgers have none
    scores = [
        f"  {name:<{width}}  {mean:12,.2f}" + (f"  {KNOWING}" if name in knowing else "")
        for name, mean in means.items()
    ]
    head = f"{result['evaluation']}: means on {result['split']}"
    decided = [result["until"]] if "until" in result else []
    lines = [*cautions_in(result), head, *scores, *result.get("planned", ()), *decided]
    return Shown(lines, warnings=caveats_of(result))


def _show_plan(result: Mapping[str, Any]) -> Shown:
    agents, looks = result["agents"], result["looks"]
    others = "1 other agent has" if looks == 1 else f"{looks or 'no'} other agents have"
    ledger = f"by the ledger of this machine, {others} been scored on these windows"
    what = f"{count_of(len(agents), 'comparison')} on {result['split']} of {result['recipe']}"
    return Shown([
        f"{result['plan']}: {what}, with the strongest policy that did not learn:",
        *(f"  {agent}" for agent in agents),
        "looks at these windows are not counted" if looks is None else ledger,
    ])  # fmt: skip


COMMANDS: Final = {"evaluate": Command(
    "hindcast evaluate binpack-synthetic-v1 --policy tetris agents/tp --out evaluations/demo",
    Request,
    "A suffix changes how a checkpoint acts:\n"
    "  FOLDER@1        draws its choices, as in training\n"
    "  FOLDER@RULE     on multicluster, a rule chooses the application and the agent the cluster\n"
    "  FOLDER@rollout  and RULE@rollout, on binpack, queue, multicluster and slots, look ahead;\n"
    "                  with +futures=16 in that many drawn futures",
    recorded="asked",
), "plan": Command(
    "hindcast plan slots-deeprm-v1 --policy hold_8 --policy agents/a --out plan.json",
    Plan,
    "An evaluation with --plan says where it deviates from the plan, and tests the agents as one\n"
    "family of comparisons.",
)}  # fmt: skip
