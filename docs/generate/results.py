"""Pages of the tables below docs/results: a page per table and recipe.

Tables of thousands of rows have the keys of commands.json in their column `command`: the first
digits of a command's SHA-256.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from docs.generate.decision_coverage import TABLE as COVERAGE
from docs.generate.decision_coverage import coverage_markdown
from docs.generate.families import EARLIER, ENDS, interval_of
from docs.generate.gate import TABLE as GATE
from docs.generate.gate import gate_markdown
from docs.generate.text import contents
from hindcast.pipeline.evaluation.studies.page import study_markdown
from hindcast.pipeline.evaluation.studies.study import COLUMNS as STUDY_COLUMNS
from hindcast.pipeline.evaluation.summary.results import COLUMNS, DEGREES, results_markdown
from hindcast.pipeline.evaluation.summary.results import EARLIER as NOT_WIDENED
from hindcast.policies.ope.selection_table import selection_markdown

FOLDER: Final = Path(__file__).resolve().parents[1] / "results"
BOUNDS: Final = "bounds.csv"  # these two are columns of the protocol page, not tables of policies
SIZES: Final = "sizes.csv"
COMMANDS: Final = "commands.json"
RANKING: Final = "ope_ranking.csv"  # parts of these are tables of pages written by hand
STARTS: Final = "start_times.csv"
ORDERS: Final = "queue_orders.csv"
RULES: Final = "queue_rules.csv"
FGD: Final = "fgd.csv"
GRID_AGENTS: Final = "grid_agents.csv"
GRID_SETTINGS: Final = "grid_settings.csv"
PACK: Final = "pack_agents.csv"
FRESH_TIMES: Final = "fresh_times.csv"
RULE_TIMES: Final = "rule_times.csv"
LOOKING_AHEAD: Final = "looking_ahead.csv"
INTERVALS: Final = "intervals.csv"
_IN_PAGES: Final = {
    INTERVALS,
    BOUNDS,
    SIZES,
    RANKING,
    STARTS,
    ORDERS,
    RULES,
    FGD,
    GRID_AGENTS,
    GRID_SETTINGS,
    PACK,
    FRESH_TIMES,
    RULE_TIMES,
}
_OWN: Final = {GATE: gate_markdown, COVERAGE: coverage_markdown}


def result_pages() -> Mapping[str, str]:
    """Return the pages of all committed tables."""
    pages: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.csv")):
        if path.name in _IN_PAGES:
            continue
        content = path.read_bytes()
        if path.name in _OWN:
            pages[f"results/{path.stem}.md"] = _OWN[path.name](content)
            continue
        head = tuple(next(csv.reader([content.split(b"\n", 1)[0].decode()])))
        if head in (COLUMNS, tuple(name for name in COLUMNS if name != DEGREES)):
            pages |= _by_recipe(path.name, content)
        else:
            page = study_markdown if head == tuple(STUDY_COLUMNS) else selection_markdown
            pages[f"results/{path.stem}.md"] = page(content, path.name)
    return pages


def _by_recipe(name: str, content: bytes) -> dict[str, str]:
    stem = name.removesuffix(".csv")
    head, *rows = csv.reader(io.StringIO(content.decode()))
    recipe, command = head.index("recipe"), head.index("command")
    commands = json.loads((FOLDER / COMMANDS).read_text(encoding="utf-8"))
    for row in rows:
        row[command] = commands[row[command]]
        _widen(head, row)
    pages: dict[str, str] = {}
    for one in dict.fromkeys(row[recipe] for row in rows):
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(
            [head, *(row for row in rows if row[recipe] == one)]
        )
        page = results_markdown(buffer.getvalue().encode(), name)
        page = page.replace(NOT_WIDENED, f"{EARLIER}, and its means have none")
        pages[f"results/{stem}/{one}.md"] = page.replace("# Results", f"# {one}", 1)
    index = [f"# Table {name}", "", f"One page per recipe of `docs/results/{name}`.", ""]
    index += [contents([page.rpartition("/")[2].removesuffix(".md") for page in pages])]
    return {f"results/{stem}/index.md": "\n".join(index), **pages}


def _widen(head: Sequence[str], row: list[str]) -> None:
    """Widen the interval of the difference in a row of an earlier evaluation; its mean has none.

    Widened intervals of means hold the truth less often than those of differences.
    """
    cells = dict(zip(head, row, strict=True))
    if cells.get(DEGREES):
        return
    row[head.index("low")] = row[head.index("high")] = ""
    if cells["paired_low"]:
        for name, end in zip(ENDS, interval_of(cells), strict=True):
            row[head.index(name)] = str(end)
