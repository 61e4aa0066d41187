"""Rules and agents of `queue` side by side: in windows, in one run, with tails and groups of jobs.

    python -m docs.generate.queue_rules OUT [AGENTS] > docs/results/queue_rules.csv

evaluates them into folders below OUT, and prints a row per part, log and policy. Evaluations that
are finished are read. AGENTS/LOG/NAME has trainings of an agent, one folder per seed; their
selected checkpoints are the agent NAME on that log. Records of provenance go to stderr, for
docs/results/provenance.json.

Parts of an archive log, all in its last 30 %:

    test       the test windows of its recipe, which choices of rules have been read on
    between    windows between those, whose counted jobs no window of a recipe counts
    run        these 30 % as one run

of a model, the windows of its recipe and the whole of it as one run. KTH SP2 and SDSC SP2 have no
windows between: their test windows count every job.
"""

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from docs.generate.families import interval_of
from docs.generate.results import FOLDER
from docs.generate.results import RULES as RULES_TABLE
from docs.generate.text import code, prose, table
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.evaluation.summary.pairing import read_settings
from hindcast.pipeline.evaluation.summary.summarise import summarise
from hindcast.pipeline.pages.numbers import write_interval, write_number
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.shipped import recipe_folder
from hindcast.pipeline.scenarios import load_scenario
from hindcast.policies.entrants import entrants

BASE: Final = load_scenario("queue").references[0]
_EASY: Final = (
    "fcfs", "sjf", "saf", "lxf", "similar_area", "aged_area", "steady_area", "aged_expected",
    "wsept",
)  # fmt: skip
RULES: Final = (
    *(f"{rule}_easy" for rule in _EASY),
    "aged_expected_greedy", "aged_expected_conservative", "wsept_greedy", "wsept_conservative",
    "saf_clairvoyant",
)  # fmt: skip
RELEASED: Final = "released agent"
_HOUR_S: Final = 3600.0
# Columns of the table, the outcome that each is the mean of, and its unit in the outcome's.
_MEANS: Final = {
    "wait_h": ("mean_wait_s", _HOUR_S), "p95_wait_h": ("p95_wait_s", _HOUR_S),
    "p99_wait_h": ("p99_wait_s", _HOUR_S), "longest_wait_h": ("max_wait_s", _HOUR_S),
    "slowdown_wide": ("mean_slowdown_wide", 1.0), "slowdown_long": ("mean_slowdown_long", 1.0),
}  # fmt: skip
COLUMNS: Final = (
    "part", "log", "policy", "kind", "seeds", "windows", "slowdown", *_MEANS, "difference", "low",
    "high", "wins", "ties", "losses", "provenance",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A log or a model.

    Attributes:
        recipe: Its recipe.
        first: First job of the one run.
        between: Jobs from a test window to the window behind it; 0 for none.
        split: Split of the windows of the part `test`.
    """

    recipe: str
    first: int
    between: int = 0
    split: str = "test"


SOURCES: Final[Mapping[str, Source]] = {
    "KTH SP2": Source("queue-kth-online", 19942),
    "SDSC SP2": Source("queue-sdsc-sp2-online", 37830),
    "CTC SP2": Source("queue-ctc-online", 54055, 256),
    "SDSC Blue": Source("queue-sdsc-blue-online", 162793, 768),
    "HPC2N": Source("queue-hpc2n-online", 142009, 640),
    "Lublin-1": Source("queue-lublin1-v1", 0, split="all"),
    "Lublin-2": Source("queue-lublin2-v1", 0, split="all"),
}
# Recipes of agents that read learned run times, in the tables of results.
LEARNED: Final = {
    **{source.recipe.replace("-online", "-learned-online"): log
       for log, source in SOURCES.items() if source.recipe.endswith("-online")},
    "queue-kth-learned-v1": "KTH SP2",
    "queue-ctc-learned-v1": "CTC SP2",
    "queue-sdsc-sp2-learned-v1": "SDSC SP2",
}  # fmt: skip
AGENTS: Final = ("evolution", "trajectory_preference")
PARTS: Final = ("test", "between", "run")
MODELS: Final = ("Lublin-1", "Lublin-2")  # requests are the run times, and no user is known


def _parts(source: Source) -> Iterator[tuple[str, Recipe, str]]:
    """Yield the name, the recipe and the split of each part of a source."""
    recipe = load_recipe(source.recipe)
    yield "test", recipe, source.split
    if source.between:
        starts = [recipe.config.starts[w] + source.between for w in recipe.windows("test")]
        windows = [f"config.starts={starts}", f'split={{test="0..{len(starts) - 1}"}}']
        yield "between", load_recipe(source.recipe, windows), "test"
    run = [f"config.starts=[{source.first}]", "config.whole=true", 'split={test="0..0"}']
    yield "run", load_recipe(source.recipe, run), "test"


def _entrants(recipe: Recipe, source: Source, folder: Path | None) -> list[Entrant]:
    """Return the rules, the released agent of the recipe, and the trained ones of a folder."""
    found = entrants(recipe, RULES)
    released = recipe_folder() / source.recipe / "agent"
    named = {RELEASED: [released]} if released.is_dir() else {}
    for agent in sorted(folder.iterdir()) if folder is not None and folder.is_dir() else ():
        selected = sorted(agent.glob("*/best/checkpoint.json"))
        named[agent.name] = [path.parent for path in selected]
    checkpoints = [str(path) for paths in named.values() for path in paths]
    groups = [name for name, paths in named.items() for _ in paths]
    learned = entrants(recipe, checkpoints)
    return found + [
        replace(each, group=group, behaviour=replace(each.behaviour, name=f"{group} {number}"))
        for number, (group, each) in enumerate(zip(groups, learned, strict=True))
    ]


def _rows(part: str, log: str, folder: Path) -> list[dict[str, Any]]:
    """Return the rows of an evaluation, best policy first."""
    (summary,) = summarise([folder]).settings
    setting = summary.setting
    group = {name: entry.group for name, entry in setting.entries.items()}
    means = (
        setting.scores.with_columns(pl.col("policy").replace(group))
        .group_by("policy", "metric").agg(pl.col("value").mean())
    )  # fmt: skip
    outcomes = {(policy, metric): value for policy, metric, value in means.iter_rows()}
    origins = {p.name: setting.origin(p) for p in setting.headline.policies}
    return [
        {
            "part": part, "log": log, "policy": row["policy"], "kind": row["kind"],
            "seeds": row["seeds"], "windows": row["windows"], "slowdown": row["mean"],
            **{name: outcomes[row["policy"], metric] / unit
               for name, (metric, unit) in _MEANS.items()},
            "difference": row["paired_difference"], "low": row["paired_low"],
            "high": row["paired_high"],
            **{name: row[name] for name in ("wins", "ties", "losses")},
            "provenance": origins[row["policy"]],
        }
        for row in summary.table[setting.first.headline]
        if row["reference"] == BASE
    ]  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Evaluate what is not evaluated yet, and print the table."""
    out, agents = Path(arguments[0]), Path(arguments[1]) if len(arguments) > 1 else None
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    known: dict[str, Any] = {}
    parts = [(part, log, recipe, split) for log, source in SOURCES.items()
             for part, recipe, split in _parts(source)]  # fmt: skip
    for part, log, recipe, split in sorted(parts, key=lambda one: PARTS.index(one[0])):
        source = SOURCES[log]
        folder = out / f"{source.recipe}-{part}"
        if not (folder / "evaluation.json").is_file():
            trained = None if agents is None else agents / source.recipe
            evaluate(recipe, _entrants(recipe, source, trained), split=split, out=folder)
        known |= read_settings([folder])[0].records
        for row in _rows(part, log, folder):
            writer.writerow({
                name: f"{value:.6g}" if isinstance(value, float) else value
                for name, value in row.items()
            })  # fmt: skip
    sys.stderr.write(json.dumps(known, indent=2) + "\n")


def queue_rules_pages() -> Mapping[str, str]:
    """Return the tables of docs/results/queue-rules.md, and that of learned agents in queue.md."""
    rows = _read(RULES_TABLE)
    return {
        f"parts/queue-rules-{part}.md": "\n\n".join(
            f"**{log}**, {_size(of_log)}\n\n{_table(of_log)}" for log, of_log in _by_log(rows, part)
        )
        for part in PARTS
    } | {"parts/queue-rules-unread.md": _unread(rows), "parts/queue-learned.md": _learned()}


def _read(name: str) -> list[dict[str, str]]:
    """Return the rows of a committed table."""
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _learned() -> str:
    """Return the agents that read learned run times on the test windows, beside both rules."""
    cells = []
    for name, column in (("online.csv", "online"), ("offline.csv", "log")):
        by_agent: dict[tuple[str, str], dict[str, Mapping[str, str]]] = {}
        for row in _read(name):
            if row["recipe"] in LEARNED and row["policy"].startswith(AGENTS):
                by_agent.setdefault((row["recipe"], row["policy"]), {})[row["baseline"]] = row
        for (recipe, policy), against in by_agent.items():
            first = against[BASE]
            cells.append([
                LEARNED[recipe], column, code(policy), first["seeds"],
                write_number(float(first["mean"]), 1),
                *(_less(against[rule], "paired_") for rule in (BASE, "wsept_easy")),
            ])  # fmt: skip
    cells.sort(key=lambda row: list(SOURCES).index(row[0]))
    head = ["log", "learned from", "agent", "seeds", "mean", f"less {code(BASE)}"]
    return table([*head, "less `wsept_easy`"], cells, left=3)


def _unread(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the differences from BASE in windows that no choice has read, a column per log."""
    logs = {
        log: {row["policy"]: row for row in of_log}
        for part, names in (("between", SOURCES), ("test", MODELS))
        for log, of_log in _by_log(rows, part)
        if log in names
    }
    policies = dict.fromkeys(policy for found in logs.values() for policy in found)
    cells = [
        [_name(rows_of[0]), *(_less(found[policy]) if policy in found else ""
                              for found in logs.values())]
        for policy in policies
        if policy != BASE and (rows_of := [f[policy] for f in logs.values() if policy in f])
    ]  # fmt: skip
    means = [write_number(float(found[BASE]["slowdown"]), 1) for found in logs.values()]
    return table(["policy", *logs], [[f"{code(BASE)}, mean", *means], *cells], left=1)


def _name(row: Mapping[str, str]) -> str:
    """Return the name of a policy with what has to be known about it."""
    name = prose(row["policy"]) if row["kind"] == "learned" else code(row["policy"])
    return f"{name} (knows run times)" if row["kind"] == "knows run times" else name


def _less(row: Mapping[str, str], prefix: str = "") -> str:
    """Return the difference from a rule with its interval; empty for the rule itself."""
    if not row[f"{prefix}low"]:
        return ""
    difference, low, high = interval_of(
        row, [f"{prefix}{name}" for name in ("difference", "low", "high")]
    )
    ends = write_interval(low, high, 1, signed=True).replace(" .. ", " to ")
    less = f"{write_number(difference, 1, signed=True)} ({ends})"
    return f"**{less}**" if high < 0 else less


def _by_log(
    rows: Iterable[Mapping[str, str]], part: str
) -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    of_part = [row for row in rows if row["part"] == part]
    for log in dict.fromkeys(row["log"] for row in of_part):
        yield log, [row for row in of_part if row["log"] == log]


def _size(rows: Sequence[Mapping[str, str]]) -> str:
    unit = "weeks of one run" if rows[0]["part"] == "run" else "windows"
    return f"{rows[0]['windows']} {unit}"


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the table of a part of a log."""
    head = ["policy", "slowdown", f"less `{BASE}`", "mean wait", "p95", "p99", "longest", "wide"]
    cells = []
    for row in rows:
        numbers = ["wait_h", "p95_wait_h", "p99_wait_h", "longest_wait_h", "slowdown_wide"]
        cells.append([
            _name(row) + (f", seeds: {row['seeds']}" if row["seeds"] != "1" else ""),
            write_number(float(row["slowdown"]), 1), _less(row),
            *(write_number(float(row[column]), 1) for column in [*numbers, "slowdown_long"]),
        ])  # fmt: skip
    return table([*head, "long"], cells, left=1)


if __name__ == "__main__":
    main(sys.argv[1:])
