"""Rules that look ahead on the windows of published rows: docs/results/looking_ahead.csv.

`hindcast report` writes the rows, of evaluations whose commands are in commands.json. All rows of
the table on the page are one family of comparisons.
"""

import csv
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from docs.generate.families import kind, marked, mde, verdicts
from docs.generate.results import COMMANDS, FOLDER, LOOKING_AHEAD
from docs.generate.text import code, prose, table
from hindcast.pipeline.pages.numbers import decimals_for, write_number
from hindcast.policies.registry import looks_ahead

Row = Mapping[str, str]
_OTHER_WINDOWS: Final = ("config.arrival", "config.setting", "split.test")


def looking_ahead_table() -> str:
    """Return the table as Markdown, and a sentence of what it shows."""
    commands = json.loads((FOLDER / COMMANDS).read_text(encoding="utf-8"))
    found = shown_rows()
    digits = [decimals_for([float(row["mean"]), float(row["paired_difference"])]) for row in found]
    lines = []
    for row, cell, decimals in zip(found, marked(found, digits), digits, strict=True):
        other = float(row["mean"]) - float(row["paired_difference"])
        lines.append([
            _windows(commands[row["command"]]), row["windows"], code(row["metric"]),
            prose(f"{row['policy']} {write_number(float(row['mean']), decimals)}"),
            prose(f"{row['baseline']} {write_number(other, decimals)}"), cell, mde(row, decimals),
        ])  # fmt: skip
    head = ["windows of", "count", "metric", "policy, mean", "compared with", "difference", "MDE"]
    return f"{table(head, lines)}\n{kind(found)}\n\n{_found(found)}\n"


def _windows(command: str) -> str:
    """Return the recipe of a command, with the settings that make other windows of it."""
    words = shlex.split(command)
    given = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    shown = [one for one in given if one.startswith(_OTHER_WINDOWS)]
    return ", ".join(map(code, [words[2], *shown]))


def shown_rows() -> list[Row]:
    """Return rules that look ahead against the same rules alone, and agents against the former."""
    with (FOLDER / LOOKING_AHEAD).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    unlearned = {row["baseline"] for row in rows}
    return [
        row
        for row in rows
        if _is_ahead(row) or ("@" in row["baseline"] and row["policy"] not in unlearned)
    ]


def _is_ahead(row: Row) -> bool:
    """Return whether a row compares a rule, or all rules, looking ahead with a rule alone."""
    rule, _, asked = row["policy"].rpartition("@")
    return looks_ahead(asked) and rule in {"", row["baseline"]}


def _found(rows: Sequence[Row]) -> str:
    """Return for how many rules and agents a difference is shown, of all rows as one family."""
    words = []
    for what, ahead in (("rules that look ahead", True), ("agents beside them", False)):
        shown = zip(rows, verdicts(rows), strict=True)
        sides = [side for row, side in shown if _is_ahead(row) == ahead]
        words.append(
            f"Of the {len(sides)} rows of {what}, {sides.count(1)} are better than what they are "
            f"compared with and {sides.count(-1)} worse; the others do not tell."
        )
    return " ".join(words)
