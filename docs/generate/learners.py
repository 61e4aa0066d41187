"""Reference pages of agents, estimators, trace formats and exports, from their registries."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from docs.generate.recipe import settings_table
from docs.generate.text import code, prose, sentence, table
from pipeline.estimators import ESTIMATORS
from pipeline.exports import EXPORTS
from pipeline.traces import FORMATS
from policies.offline import AGENTS
from policies.online import ONLINE_AGENTS


def learner_pages() -> Mapping[str, str]:
    """Return the pages `agents.md`, `online-agents.md`, `estimators.md` and `formats.md`."""
    return {
        "agents.md": _agents(),
        "online-agents.md": _online_agents(),
        "estimators.md": _estimators(),
        "formats.md": _formats(),
    }


def _agents() -> str:
    lines = [
        "# Offline agents", "",
        "`hindcast train DATASET --agent NAME` trains one. `--set KEY=VALUE` replaces a setting;"
        " a recipe does the same in `[train.settings.NAME]`.", "",
        table(["agent", "description"], [[f"[{code(a.name)}](#{_anchor(a.name)})", sentence(a.description)] for a in AGENTS.values()]),
    ]  # fmt: skip
    for agent in AGENTS.values():
        lines += [f"({_anchor(agent.name)})=", f"## {agent.name}", "", sentence(agent.description), ""]
        needs = ["next candidates"] * agent.transitions + ["probabilities of the behaviours"] * agent.probabilities
        lines += [f"Needs of the dataset: {', '.join(needs)}.", ""] if needs else []
        lines += [f"Scenarios: {', '.join(agent.scenarios)}.", ""] if agent.scenarios else []
        lines += [settings_table(agent.implementation().Config)]
    return "\n".join(lines)


def _online_agents() -> str:
    import importlib

    lines = [
        "# Online agents", "",
        "`hindcast train-online RECIPE` trains the agent that the recipe names in `[online]`;"
        " its settings are in `[online.settings]`.", "",
        table(["agent", "description"], [[f"[{code(a.name)}](#{_anchor(a.name)})", sentence(a.description)] for a in ONLINE_AGENTS.values()]),
    ]  # fmt: skip
    for agent in ONLINE_AGENTS.values():
        lines += [f"({_anchor(agent.name)})=", f"## {agent.name}", "", sentence(agent.description), ""]
        lines += [f"Scenarios: {', '.join(agent.scenarios)}.", ""] if agent.scenarios else []
        lines += [settings_table(importlib.import_module(agent.module).Config)]
    return "\n".join(lines)


def _anchor(name: str) -> str:
    return f"agent-{name.replace('_', '-')}"


def _estimators() -> str:
    rows = [
        [code(e.name), sentence(e.description), ", ".join(_needs(e))] for e in ESTIMATORS.values()
    ]
    return "\n".join([
        "# Off-policy estimators", "",
        "`hindcast ope` computes all of them; [](../concepts/off-policy-evaluation.md) says how"
        " to read the result.", "",
        table(["estimator", "description", "needs"], rows),
    ])  # fmt: skip


def _needs(estimator: Any) -> list[str]:
    words = {"values": "fitted values", "features": "features", "windows": "several episodes per window"}
    return [word for name, word in words.items() if getattr(estimator, name)]


def _formats() -> str:
    traces = [[code(f.name), sentence(f.description)] for f in FORMATS.values()]
    exports = [[code(e.name), sentence(e.description)] for e in EXPORTS.values()]
    return "\n".join([
        "# Trace formats and exports", "",
        "## Trace formats", "",
        "`hindcast ingest FORMAT PATH --out DIR` reads one; `hindcast traces` says where to get"
        " the traces, on which terms, and how to cite them.", "",
        table(["format", "description"], traces),
        "## Exports", "",
        "`hindcast export DATASET --to FORMAT --out PATH` writes one.", "",
        table(["format", "description"], exports),
    ])  # fmt: skip


