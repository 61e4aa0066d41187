"""Pages of the documentation that are generated from the code and from tables of results.

    commands    the command line, from the fields of the requests
    recipe      every key of a recipe, from the settings dataclasses
    scenarios   observation, rewards, outcomes, rules and settings of each scenario
    learners    agents, estimators, trace formats and exports, from their registries
    results     the tables below docs/results, a page per recipe
    headlines   selected rows of these tables
    papers      committed reproductions of papers, and what their evidence says
    protocol    the datasets, and the anchors of normalised scores

Generated pages are written to docs/generated and are not committed.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from docs.generate.commands import command_pages
from docs.generate.headlines import headline_pages
from docs.generate.learners import learner_pages
from docs.generate.papers import paper_pages
from docs.generate.protocol import protocol_pages
from docs.generate.recipe import recipe_pages
from docs.generate.results import result_pages
from docs.generate.scenarios import scenario_pages


def write_pages(folder: Path) -> None:
    """Write all generated pages into a folder, and remove what else is in the folder."""
    pages = pages_of()
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.rstrip() + "\n", encoding="utf-8")


def pages_of() -> Mapping[str, str]:
    """Return the text of every generated page by its path below docs/generated."""
    return {
        **command_pages(),
        **recipe_pages(),
        **scenario_pages(),
        **learner_pages(),
        **protocol_pages(),
        **result_pages(),
        **headline_pages(),
        **paper_pages(),
    }
