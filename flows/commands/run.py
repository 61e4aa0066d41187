"""`hindcast run`: build, verify, train, evaluate and report; finished stages are skipped."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hindcast.flows import parser as p
from hindcast.flows import runners
from hindcast.flows.commands import Command, Shown, build, evaluate, train, verify
from hindcast.pipeline.errors import RecipeError, did_you_mean, unknown_name
from hindcast.pipeline.storage.extras import require

if TYPE_CHECKING:
    from hindcast.pipeline.recipes.recipe import Recipe


@dataclass(frozen=True)
class Request:
    """Recipe to run, and the folder for its dataset, agents, evaluation and report."""

    recipe: p.Name = p.recipe()
    out: p.Folder = p.option("folder for dataset/, agents/, evaluation/ and report.html")
    overrides: tuple[p.Override, ...] = p.overrides()
    workers: p.Workers = p.workers()
    command: str = p.hidden("command line that is kept in evaluation.json", "")
    trace: p.Folder | None = p.trace()
    policies: tuple[p.Name, ...] = p.more_policies()
    agents: tuple[p.Name, ...] = p.option(
        "agents to train beside the recipe's, by name or your own: path/to/file.py:NAME or "
        "module:NAME; an online agent replaces the recipe's; may be repeated", default=(),
        flag="--agent", action="extend", metavar="NAME")  # fmt: skip
    runner: p.Runner = p.runner()
    address: str = p.address()

    def settings(self) -> tuple[str, ...]:
        """Return the overrides of the recipe, those of its trace and agents included."""
        overrides = p.with_trace(self.overrides, self.trace)
        if self.agents:
            overrides += (*_with_agents(self.recipe, overrides, self.agents),)
        return overrides


def _with_agents(recipe: str, overrides: tuple[str, ...], agents: tuple[str, ...]) -> Iterator[str]:
    """Yield the overrides that add agents to a recipe."""
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.policies.offline import ALL
    from hindcast.policies.online import ONLINE_AGENTS
    from hindcast.policies.own_agents import agent_name, learns_online, online_agent_name

    offline = list(load_recipe(recipe, overrides).train.agents)
    for agent in agents:
        if agent in ONLINE_AGENTS or learns_online(agent):
            yield f'online.agent="{online_agent_name(agent)}"'
        elif (name := agent_name(agent)) not in offline and offline != [ALL]:
            offline.append(name)
    yield f"train.agents={json.dumps(offline)}"


def check(request: Request) -> None:
    """Raise InputError if the recipe is not valid, or a policy, agent or metric is unknown."""
    runners.check(request)
    from hindcast.pipeline.evaluation.evaluate import COMMON
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.pipeline.recipes.workload_source import check_trace
    from hindcast.pipeline.scenarios import load_scenario
    from hindcast.policies.entrants import evaluated_policies

    loaded = load_recipe(request.recipe, request.settings())
    if loaded.train.agents or loaded.online.agent:
        require(f"{loaded.id}: training", "torch")
    check_trace(loaded, request.trace)
    build.check(build.Request(request.recipe, request.out, request.settings()))
    if loaded.train.agents and not loaded.behaviours:
        raise RecipeError(
            f"{loaded.id}: train.agents is set, but without [[behaviours]] there is no dataset to "
            "learn from"
        )
    evaluate.check(
        evaluate.Request(
            request.recipe, request.out, (*evaluated_policies(loaded), *request.policies),
            overrides=request.settings(),
        )
    )  # fmt: skip
    _check_training(loaded)
    if loaded.online.agent:
        _check_online(loaded)
    spec = load_scenario(loaded.scenario).spec(loaded.config, loaded.objective)
    metrics = [o.name for o in (*spec.outcomes, *COMMON)]
    for metric in loaded.evaluate.metrics:
        if metric not in metrics:
            raise unknown_name("metric", metric, metrics)


def _check_training(recipe: "Recipe") -> None:
    """Raise InputError if an agent of [train] is unknown or does not have a given setting."""
    from hindcast.policies.offline import agent as find_agent
    from hindcast.policies.offline import agents_for, read_config

    agents = agents_for(recipe.train.agents, recipe.scenario)
    for agent in (*agents, *recipe.train.settings):
        find_agent(agent)
    for agent in agents:
        recipe.train.steps_of(agent)
    for agent in recipe.train.settings:
        if agent not in agents:
            raise RecipeError(
                f"{recipe.id}: train.settings.{agent} is set, but train.agents has no {agent!r}; "
                f"{did_you_mean(agent, agents)}"
            )
        read_config(agent, recipe.train.settings_of(agent))


def _check_online(recipe: "Recipe") -> None:
    """Raise InputError if a run cannot train the agent of [online]."""
    from hindcast.policies.online.training import settings_of

    settings_of(recipe)
    seeds = recipe.online.seeds
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise RecipeError(
            f"{recipe.id}: online.seeds is {list(seeds)}, expected one or more different seeds, "
            "each at least 0"
        )
    if recipe.online.imitate_steps and not recipe.behaviours:
        raise RecipeError(
            f"{recipe.id}: online.imitate_steps is {recipe.online.imitate_steps}, but without "
            "[[behaviours]] there is no dataset to imitate"
        )


def run(request: Request) -> dict[str, Any]:
    """Run all stages that are not finished yet."""
    from hindcast.flows.runs.stages import run_stages

    return run_stages(request)


def show(result: Mapping[str, Any]) -> Shown:
    """Return the output of each stage, and last the finding and the path of the report."""
    stages: Mapping[str, dict[str, Any]] = result["stages"]
    shows = {"build": build.show, "verify": verify.show, "train": train.show,
             "evaluate": evaluate.show}  # fmt: skip
    outputs = [
        shows[name.partition(" ")[0]](stage) for name, stage in stages.items() if name != "report"
    ]
    rows = [{"stage": name, **stage} for name, stage in stages.items()]
    warnings = list(dict.fromkeys(line for stage in outputs for line in stage.warnings))
    findings = stages.get("report", {}).get("findings", ())  # older ledgers have none
    lines = [line for stage in outputs for line in stage.lines if line not in findings]
    return Shown([*lines, *findings, result["report"]], rows, warnings=warnings)


COMMANDS: Final = {"run": Command(
    "hindcast run binpack-synthetic-v1 --out demo --workers 2",
    Request,
    "The same command, given again, continues. The last line is the path of the report.",
    recorded="always",
)}  # fmt: skip
