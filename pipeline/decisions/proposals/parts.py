"""Parts of the proposals of mappings of every shape of a log of decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.decisions.batch import Reading
from hindcast.pipeline.decisions.log import LONGEST_TEXT, NOT_READ
from hindcast.pipeline.decisions.mapping import KIND
from hindcast.pipeline.decisions.shapes.nested import getter, records
from hindcast.pipeline.decisions.values import MISSING, numbers, times
from hindcast.pipeline.errors import printable
from hindcast.pipeline.recipes.toml import table_toml

MOST: Final = 0.8  # share of decisions in which a column must be as it is taken
JSON: Final = (".jsonl", ".ndjson", ".json")
_RECORDS: Final = 2000  # of a file that are looked at


@dataclass
class DecisionProposal:
    """A proposed mapping.

    Attributes:
        table: The mapping as it is written.
        unsure: Guesses that a person should look at.
        not_read: Columns that the mapping leaves out.
    """

    table: dict[str, Any]
    unsure: list[str] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)

    @property
    def toml(self) -> str:
        """The mapping as TOML."""
        comments = [f"# unsure: {printable(text)}\n" for text in self.unsure]
        return table_toml(self.table) + "".join(comments)


def proposal_of(path: Path, shape: str, columns: dict[str, str]) -> DecisionProposal:
    """Return the beginning of a proposal."""
    table = {"kind": KIND, "file": path.name, "shape": shape, "columns": columns}
    return DecisionProposal(table)


def is_number(column: pl.Series) -> bool:
    """Return whether a column holds numbers alone, infinite and missing ones included."""
    values, bad = numbers(column)
    finite = bad & ~(values == float("inf")) & ~(values == -float("inf"))
    return not finite.any() and column.null_count() < len(column)


def is_time(column: pl.Series) -> bool:
    """Return whether a column may hold times: numbers, or texts of which most are times."""
    if column.dtype.is_numeric():
        return True
    _, bad, _ = times(column, "UTC")
    return bool(bad.mean() <= 1 - MOST)


def is_category(values: Sequence[str | None]) -> bool:
    """Return whether texts are the levels of a category: few, short, and repeated."""
    levels = {v for v in values if v is not None}
    return bool(levels) and len(levels) <= NOT_READ and max(map(len, levels)) <= LONGEST_TEXT and (
        len(levels) <= 20 or len(levels) < len(values) / 2
    )  # fmt: skip


def lists_of(figures: list[str], texts: list[str]) -> dict[str, Any]:
    """Return the features of one side of a mapping."""
    return {"numbers": figures, **({"categories": texts} if texts else {})}


def finish(
    found: DecisionProposal, has_p: bool, draws: str, reward: str, cost: str, units: list[str],
) -> None:  # fmt: skip
    """Add the kind of the propensities and the split, and what is unsure."""
    kind = "none" if not has_p else "monte_carlo" if draws else "exact"
    found.table["propensity"] = {"kind": kind, **({"draws": draws} if draws and has_p else {})}
    if units:
        found.table["split"] = {"by": "hash", "validation": 0.2, "test": 0.2}
    if cost:
        found.unsure.append(f"{cost} is read as a cost: less is better")
    elif not reward and "outcomes" not in found.table:
        figures = found.table["context"].get("numbers", [])
        some = f" ({', '.join(figures[:6])}?)" if figures else ""
        found.unsure.append(
            f"no column is a reward: name it{some}, or a file of outcomes in [outcomes]"
        )
    if not has_p:
        found.unsure.append("no column is a propensity: weights will need estimated ones")
    if draws:
        found.unsure.append(f"propensities are read as counted from {draws} draws")


def tell_zone(found: DecisionProposal, column: pl.Series) -> None:
    """Add that times have no zone, if they have none."""
    if times(column, "UTC")[2]:
        found.unsure.append("times have no zone: read as UTC, unless time_zone says otherwise")


def records_in(path: Path) -> list[dict[str, Any]]:
    """Return the first records of a file."""
    return [record for _, _, record in islice(records([path], Reading()), _RECORDS)]


def leaves_of(sample: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of all dotted paths that are no objects; None where a record lacks one."""
    paths: dict[str, None] = {}
    for record in sample:
        stack = [("", record)]
        while stack:
            prefix, value = stack.pop(0)
            for key, inner in value.items():
                if isinstance(inner, dict):
                    stack.append((f"{prefix}{key}.", inner))
                else:
                    paths[f"{prefix}{key}"] = None
    return {p: [getter(p)(record) for record in sample] for p in paths}


def all_numbers(values: Sequence[Any]) -> bool:
    """Return whether the values of records are numbers, of which some may be missing."""
    there = [v for v in values if v is not None and str(v).strip().lower() not in MISSING]
    return bool(there) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in there
    )
