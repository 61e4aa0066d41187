"""Pages of the documentation that are generated from the code and from tables of results.

    commands    the command line, from the fields of the requests
    recipe      every key of a recipe, from the settings dataclasses
    scenarios   dynamics, features, outcomes, rules, settings and recipes of each scenario
    learners    agents, estimators, trace formats and exports, from their registries
    results     the tables below docs/results, a page per recipe
    headlines   selected rows of these tables
    queue_rules tables of rules and agents of queue side by side
    papers      committed reproductions of papers, and what their evidence says
    protocol    the datasets, and the anchors of normalised scores
    coverage    how often intervals hold the truth
    tables      rules, features, keys of a recipe and anchors

The pages of `tables` are committed in docs/reference/tables; `python -m docs.generate` writes them.
All others are written to docs/generated when the documentation is built.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from docs.generate.claims import claim_pages
from docs.generate.commands import command_pages
from docs.generate.coverage import coverage_pages
from docs.generate.grid_agents import grid_agents_pages
from docs.generate.grid_settings import grid_settings_pages
from docs.generate.headlines import headline_pages
from docs.generate.learners import learner_pages
from docs.generate.papers import paper_pages
from docs.generate.protocol import protocol_pages
from docs.generate.queue_rules import queue_rules_pages
from docs.generate.results import result_pages
from docs.generate.scenarios import scenario_pages

TABLES: Final = Path(__file__).resolve().parents[1] / "reference" / "tables"


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """Write pages into a folder, and remove what else is in the folder.

    A page that is there already keeps its time, so that Sphinx need not read it again.
    """
    for path in folder.rglob("*.md"):
        if path.relative_to(folder).as_posix() not in pages:
            path.unlink()
    for name, text in pages.items():
        path, whole = folder / name, text.rstrip() + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != whole:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(whole, encoding="utf-8")


def pages_of() -> Mapping[str, str]:
    """Return the text of every generated page by its path below docs/generated."""
    return {
        **command_pages(),
        **scenario_pages(),
        **learner_pages(),
        **protocol_pages(),
        **coverage_pages(),
        **result_pages(),
        **headline_pages(),
        **grid_agents_pages(),
        **grid_settings_pages(),
        **claim_pages(),
        **queue_rules_pages(),
        **paper_pages(),
    }
