"""Numbers that the papers print, read from published.csv.

One row per number. `item` is the table or figure, such as `table 2` or `figure 5a`; `row` and
`column` are its row and column, or series and x of a figure; `place` is page and number in the
paper, and says so where a number was read from a figure.
"""

from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import InputError, did_you_mean

FILE: Final = Path(__file__).with_name("published.csv")
SCHEMA: Final = pl.Schema({
    "paper": pl.String, "item": pl.String, "row": pl.String, "column": pl.String,
    "value": pl.Float64, "unit": pl.String, "place": pl.String,
})  # fmt: skip


def published(paper: str) -> pl.DataFrame:
    """Return the rows of a paper. Raises InputError if there is none."""
    table = pl.read_csv(FILE, schema=SCHEMA)
    rows = table.filter(paper=paper)
    if rows.is_empty():
        known = table["paper"].unique(maintain_order=True).to_list()
        raise InputError(f"{paper!r} is no paper; {did_you_mean(paper, known)}")
    return rows


def number(rows: pl.DataFrame, item: str, row: str, column: str) -> float | None:
    """Return a number of a paper, or None if the paper does not print it."""
    found = rows.filter(item=item, row=row, column=column)["value"]
    return None if found.is_empty() else float(found[0])
