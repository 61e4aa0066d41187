"""`hindcast list`, `show` and `diff`: list folders or known names, show one folder, compare two."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.location import location

_NAMES: Final = ("recipes", "policies", "agents", "estimators", "keys")  # options of List
_WIDEST: Final = 40  # characters of a value or type in a line; --json has all of them


@dataclass(frozen=True)
class List:
    """Folders to search, or the names to list instead."""

    folders: tuple[p.Folder, ...] = p.argument(
        "folders to search (default: this one)", default=(".",)
    )
    recipes: bool = p.option("list the recipes that come with Hindcast", default=False)
    policies: p.Name | None = p.option(
        "list the policies of a scenario", default=None, metavar="SCENARIO"
    )
    agents: bool = p.option("list the agents, offline and online", default=False)
    estimators: bool = p.option("list the estimators of `hindcast ope`", default=False)
    keys: p.Name | None = p.option(
        "list the keys of a recipe, defaults included: value, type and meaning", default=None,
        metavar="RECIPE")  # fmt: skip


@dataclass(frozen=True)
class Show:
    """Folder to show."""

    folder: p.Folder = p.argument("folder that `hindcast list` lists")


@dataclass(frozen=True)
class Diff:
    """Datasets to compare."""

    a: p.Folder = p.argument("folder of a dataset", metavar="A")
    b: p.Folder = p.argument("folder of another dataset", metavar="B")


def check(request: List | Show | Diff) -> None:
    """Raise InputError if options of `list` exclude each other."""
    if isinstance(request, List):
        options = [f"--{name}" for name in _NAMES if getattr(request, name)]
        if len(options) > 1:
            raise InputError(f"list: {' and '.join(options)} exclude each other; give one of them")
        if options and request.folders != List.folders:
            raise InputError(f"list: {options[0]} takes no folders; leave them out")


def run(request: List | Show | Diff) -> dict[str, Any]:
    """Return the lines and rows that are printed, and the exit code."""
    if isinstance(request, List):
        return _list(request)
    if isinstance(request, Show):
        from hindcast.pipeline.inspection.show import details

        folder = details(location(request.folder))
        return {"lines": folder.lines, "rows": [folder.facts]}
    from hindcast.pipeline.inspection.diff import compare, report

    differences = compare(location(request.a), location(request.b))
    summary = {"a": request.a, "b": request.b, "same": not differences}
    return {
        "lines": report(differences),
        "rows": [summary, *(d.to_json() for d in differences)],
        "code": int(bool(differences)),
    }


def _list(request: List) -> dict[str, Any]:
    """Return the table of names that an option asks for, else of what is below the folders."""
    if any(getattr(request, name) for name in _NAMES):
        from hindcast.pipeline.inspection.columns import aligned

        titles, named = _names(request)
        rows = [titles, *([_cell(name, row[name]) for name in titles] for row in named)]
        right_aligned = [place for place, title in enumerate(titles) if title == "episodes"]
        return {"lines": aligned(rows, right_aligned), "rows": named}
    from hindcast.pipeline.inspection import list as catalogue

    entries = list(catalogue.find([*map(location, request.folders)]))
    if not entries:
        searched = ", ".join(request.folders)
        return {"lines": [f"no dataset or other output of Hindcast below {searched}"], "rows": []}
    return {"lines": catalogue.listing(entries), "rows": [e.to_json() for e in entries]}


def _names(request: List) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Return the names that a request lists: titles of columns, and JSON objects that have them."""
    if request.policies is not None:
        return ("name", "description"), _policies(request.policies)
    if request.agents:
        return ("name", "learns", "scenarios", "description"), _agents()
    if request.estimators:
        from hindcast.pipeline.estimators import ESTIMATORS

        estimators = [{"name": e.name, "description": e.description} for e in ESTIMATORS.values()]
        return ("name", "description"), estimators
    if request.keys is not None:
        return ("key", "value", "type", "meaning"), _keys(request.keys)
    from hindcast.pipeline.inspection.list import recipes

    return ("name", "scenario", "level", "episodes", "description"), recipes()


def _policies(scenario: str) -> list[dict[str, Any]]:
    """Return the names for --policy of a scenario: its rules, and looking ahead with them."""
    from hindcast.pipeline.scenarios import load_scenario
    from hindcast.policies.heuristics import rules as rules_of
    from hindcast.policies.registry import ROLLOUT

    rules = rules_of(scenario)
    policies = [
        {"name": name, "description": getattr(rule, "description", "")}
        for name, rule in rules.items()
    ]
    loaded = load_scenario(scenario)
    if loaded.forget is not None:
        text = "looks ahead with the rules above that draw nothing"
        policies.append({"name": ROLLOUT, "description": text})
    if loaded.imagines:
        text = "looks ahead in drawn futures with a rule above that draws nothing"
        policies.append({"name": f"RULE@{ROLLOUT}", "description": text})
    return policies


def _agents() -> list[dict[str, Any]]:
    from hindcast.policies.offline import AGENTS
    from hindcast.policies.online import ONLINE_AGENTS

    return [
        {
            "name": agent.name,
            "learns": learns,
            "scenarios": list(agent.scenarios),
            "description": agent.description,
        }
        for learns, agents in (("offline", AGENTS), ("online", ONLINE_AGENTS))
        for agent in agents.values()
    ]


def _keys(name: str) -> list[dict[str, Any]]:
    """Return the keys of a recipe for --set, with those of its agents."""
    from hindcast.pipeline.inspection.keys import recipe_keys
    from hindcast.pipeline.recipes.loading import load_recipe

    recipe, settings = load_recipe(name), {}
    for agent in recipe.train.settings:
        from hindcast.policies.offline import read_config

        of_agent = recipe.train.settings_of(agent)
        settings[f"train.settings.{agent}"] = read_config(agent, of_agent)
    if recipe.online.agent:
        from hindcast.policies.online.training import settings_of

        settings["online.settings"] = settings_of(recipe)[1]
    return [asdict(key) for key in recipe_keys(recipe, settings)]


def _cell(title: str, value: Any) -> str:
    """Return a value as text for the column of a title."""
    if title in {"value", "type"}:
        text = value if title == "type" else json.dumps(value, ensure_ascii=False)
        text = "-" if value is None else text
        return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
    if title == "scenarios":
        return ", ".join(value) or "all"
    return f"{value:,}" if isinstance(value, int) else value or "-"


def show(result: Mapping[str, Any]) -> Shown:
    """Return the output that `run` made."""
    return Shown(**result)


COMMANDS: Final = {
    "list": Command(
        "hindcast list demo",
        List,
        "Without options, the list has the datasets, evaluations, checkpoints and runs below the\n"
        "folders, with sizes, digests and levels; damaged folders are listed with the reason.\n\n"
        "  hindcast list --policies binpack              names for --policy and [[behaviours]]\n"
        "  hindcast list --keys binpack-synthetic-v1     names for --set",
    ),
    "show": Command(
        "hindcast show demo/dataset",
        Show,
    ),
    "diff": Command(
        "hindcast diff demo/dataset other/dataset",
        Diff,
        "The exit code is 1 if anything differs.",
    ),
}
