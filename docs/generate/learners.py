"""Reference pages of agents, estimators, trace formats and exports, from their registries."""

import importlib
from collections.abc import Iterable, Mapping, Sequence

from docs.generate.recipe import settings_table
from docs.generate.text import code, sentence, table
from hindcast.pipeline.estimators import ESTIMATORS, Estimator
from hindcast.pipeline.exports import EXPORTS
from hindcast.pipeline.traces import FORMATS
from hindcast.policies.offline import AGENTS
from hindcast.policies.online import ONLINE_AGENTS

_OFFLINE = """\
# Offline agents

`hindcast train DATASET --agent NAME` trains one. `--set KEY=VALUE` replaces a setting; a recipe
does the same in `[train.settings.NAME]`.
"""
_ONLINE = """\
# Online agents

`hindcast train-online RECIPE` trains the agent that the recipe names in `[online]`; its settings
are in `[online.settings]`.
"""
_ESTIMATORS = """\
# Off-policy estimators

`hindcast ope` computes all of them. [](../concepts/off-policy-evaluation.md) explains the result.
"""
_TRACES = """\
# Trace formats and exports

## Trace formats

`hindcast ingest FORMAT PATH --out DIR` reads one. `hindcast traces` says where to get the traces,
on which terms, and how to cite them.
"""
_EXPORTS = """\
## Exports

`hindcast export DATASET --to FORMAT --out PATH` writes one.
"""


def learner_pages() -> Mapping[str, str]:
    """Return the pages `agents.md`, `online-agents.md`, `estimators.md` and `formats.md`."""
    traces = [[code(f.name), sentence(f.description)] for f in FORMATS.values()]
    exports = [[code(e.name), sentence(e.description)] for e in EXPORTS.values()]
    needs = [[code(e.name), sentence(e.description), _needs(e)] for e in ESTIMATORS.values()]
    formats = [_TRACES, table(["format", "description"], traces)]
    formats += [_EXPORTS, table(["format", "description"], exports)]
    return {
        "agents.md": _offline_agents(),
        "online-agents.md": _online_agents(),
        "estimators.md": f"{_ESTIMATORS}\n{table(['estimator', 'description', 'needs'], needs)}",
        "formats.md": "\n".join(formats),
    }


def _offline_agents() -> str:
    parts = [_OFFLINE, _index((a.name, a.description) for a in AGENTS.values())]
    for agent in AGENTS.values():
        needs = ["next candidates"] * agent.transitions
        needs += ["probabilities of the behaviours"] * agent.probabilities
        parts += _section(agent.name, agent.description, agent.scenarios)
        parts += [f"Needs of the dataset: {', '.join(needs)}.\n"] if needs else []
        parts += [settings_table(agent.implementation().Config)]
    return "\n".join(parts)


def _online_agents() -> str:
    parts = [_ONLINE, _index((a.name, a.description) for a in ONLINE_AGENTS.values())]
    for agent in ONLINE_AGENTS.values():
        parts += _section(agent.name, agent.description, agent.scenarios)
        parts += [settings_table(importlib.import_module(agent.module).Config)]
    return "\n".join(parts)


def _index(agents: Iterable[tuple[str, str]]) -> str:
    rows = [[f"[{code(name)}](#{_anchor(name)})", sentence(text)] for name, text in agents]
    return table(["agent", "description"], rows)


def _section(name: str, description: str, scenarios: Sequence[str]) -> list[str]:
    lines = [f"({_anchor(name)})=", f"## {name}", "", f"{sentence(description)}\n"]
    return lines + ([f"Scenarios: {', '.join(scenarios)}.\n"] if scenarios else [])


def _anchor(name: str) -> str:
    return f"agent-{name.replace('_', '-')}"


def _needs(estimator: Estimator) -> str:
    words = {
        "values": "fitted values",
        "features": "features",
        "policies": "known behaviours",
    }
    return ", ".join(word for name, word in words.items() if getattr(estimator, name))
