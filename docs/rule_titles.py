"""Extension of Sphinx: where a page names a rule, the name explains the rule.

The name of a rule in code, such as `hold_8`, becomes an abbreviation whose title is the description
of the rule. A name that several scenarios have is explained for the scenario of the page; a page of
no scenario gets the description of each. Names that look ahead (`hold_8@rollout`) are those of
their rule.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from docutils import nodes

from hindcast.pipeline.scenarios import SCENARIOS
from hindcast.policies.heuristics import rules

_PAPERS: Final = {
    "deepjs": "binpack", "deeprm": "slots", "osdec": "deferrable", "liu": "multicluster",
    "stream": "slots", "cdqac": "multicluster",
}  # fmt: skip
Titles = Mapping[str, Mapping[str, str]]


@cache
def descriptions() -> Titles:
    """Return the description of every rule by its name and scenario."""
    found: dict[str, dict[str, str]] = {}
    for scenario in SCENARIOS:
        for name, rule in rules(scenario).items():
            found.setdefault(name, {})[scenario] = rule.description
    return found


def title_of(name: str, page: str, known: Titles) -> str | None:
    """Return what a page says about a name, None if no rule has this name."""
    by_scenario = known.get(name.partition("@")[0])
    if by_scenario is None:
        return None
    stem = page.rpartition("/")[2].partition("-")[0]
    scenario = _PAPERS.get(stem, stem)
    if scenario in by_scenario:
        return by_scenario[scenario]
    texts = list(dict.fromkeys(by_scenario.values()))
    if len(texts) == 1:
        return texts[0]
    return "; ".join(f"{scenario}: {text}" for scenario, text in by_scenario.items())


def explain(page: str, document: nodes.document, known: Titles) -> None:
    """Explain the rules that a page names, but for those in headings."""
    for literal in list(document.findall(nodes.literal)):
        title = title_of(literal.astext(), page, known)
        if title is not None and not _in_a_heading(literal):
            short = nodes.abbreviation("", "", explanation=title)
            literal.replace_self(short)
            short += literal


def _in_a_heading(node: nodes.Node) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, nodes.title):
            return True
    return False


def setup(app: Any) -> dict[str, bool]:
    """Explain the rules of every page that is read; read all pages again if a rule has changed."""
    digest = hashlib.sha256(repr(sorted(descriptions().items())).encode()).hexdigest()
    app.add_config_value("rule_titles", digest, "env", str)
    app.connect("doctree-read", lambda app, tree: explain(app.env.docname, tree, descriptions()))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
