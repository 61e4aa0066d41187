"""The folder of a reproduction: its results are written, and read again for pages.

Everything but paper.json is the same, byte by byte, for the same results. Times and provenance are
in paper.json alone.
"""

import io
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.flows.papers.plots import file_name, panels
from hindcast.flows.papers.results import CLAIM, FIGURE, TABLE, FigureText, Results, TableText
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.pages.templates import STYLE
from hindcast.pipeline.report import svg
from hindcast.pipeline.storage.files import make_folder, read_json, write_json, write_text

ABOUT: Final = "paper.json"
_TABLES: Final = {"tables.csv": TABLE, "figures.csv": FIGURE, "claims.csv": CLAIM}
_DIGITS: Final = 6  # significant digits of numbers


def write_results(place: Path, results: Results, about: Mapping[str, Any]) -> None:
    """Write results into a folder; `about` is the rest of paper.json."""
    make_folder(place)
    found = {"tables.csv": results.tables, "figures.csv": results.figures}
    for name, table in {**found, "claims.csv": results.claims}.items():
        write_text(place / name, _csv(table, _TABLES[name]))
    rounded = read_tables(place)
    wanted = {
        file_name(*key): svg.standalone(markup, light_colors())
        for key, markup in panels(rounded["figures.csv"], results.figure_texts).items()
    }
    for old in place.glob("*.svg"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        write_text(place / name, text)
    texts = {
        "tables": {name: asdict(text) for name, text in results.table_texts.items()},
        "figures": {name: asdict(text) for name, text in results.figure_texts.items()},
    }
    write_json(place / ABOUT, {**about, **texts})


def read_results(place: Path) -> tuple[dict[str, Any], Results]:
    """Return paper.json and the results of a folder; DatasetError if it holds none."""
    about = read_json(place / ABOUT)
    try:
        tables = {name: TableText(**text) for name, text in about["tables"].items()}
        figures = {name: FigureText(**text) for name, text in about["figures"].items()}
        for key in ("paper", "title", "source", "stages", "setting"):
            about[key]
    except (KeyError, TypeError, AttributeError) as error:
        raise DatasetError(f"{place / ABOUT}: this file is damaged ({error!r})") from error
    found = read_tables(place)
    return about, Results(
        found["tables.csv"], tables, found["figures.csv"], figures, found["claims.csv"]
    )


def read_tables(place: Path) -> dict[str, pl.DataFrame]:
    """Return the three tables of a folder, by the names of their files."""
    found = {}
    for name, schema in _TABLES.items():
        try:
            table = pl.read_csv(place / name, schema=schema)
            found[name] = table.with_columns(pl.col(pl.String).fill_null(""))
        except (pl.exceptions.PolarsError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise DatasetError(f"{place / name}: this table cannot be read ({reason})") from error
    return found


def _csv(table: pl.DataFrame, schema: pl.Schema) -> str:
    """Return a table as CSV. Raises DatasetError for a column that the schema has not."""
    if missing := [name for name in schema if name not in table.columns]:
        raise DatasetError(f"a table of results lacks the column {missing[0]!r}")
    buffer = io.BytesIO()
    numbers = pl.col(pl.Float64).fill_nan(None).round_sig_figs(_DIGITS)
    table.select(schema.names()).cast(schema).with_columns(numbers).write_csv(buffer)
    return buffer.getvalue().decode()


@cache
def light_colors() -> dict[str, str]:
    """Return the CSS variables of the light scheme of reports."""
    block = STYLE.read_text(encoding="utf-8").partition("}")[0]
    return dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", block))
