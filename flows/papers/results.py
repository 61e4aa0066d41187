"""Results of a reproduction: tables, figures and claims, each with the published number beside.

    paper.json      title, source, setting, stages with commands and times, texts, provenance
    tables.csv      TABLE: one row per cell of a table
    figures.csv     FIGURE: one row per point of a figure
    claims.csv      CLAIM: one row per claim, with its verdict
    NAME.svg        picture of each figure, drawn from figures.csv

All pages are made from these files alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import polars as pl

Kind: TypeAlias = Literal["bars", "lines", "sorted", "histogram", "scatter"]

TABLE: Final = pl.Schema({
    "table": pl.String, "row": pl.String, "column": pl.String, "unit": pl.String,
    "published": pl.Float64, "measured": pl.Float64, "low": pl.Float64, "high": pl.Float64,
})  # fmt: skip
FIGURE: Final = pl.Schema({
    "figure": pl.String, "panel": pl.String, "series": pl.String, "x": pl.String,
    "y": pl.Float64, "low": pl.Float64, "high": pl.Float64,
})  # fmt: skip
CLAIM: Final = pl.Schema({
    "claim": pl.String, "item": pl.String, "text": pl.String, "unit": pl.String,
    "published": pl.Float64, "measured": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "direction": pl.String, "order": pl.String, "size": pl.String, "differs": pl.String,
})  # fmt: skip


@dataclass(frozen=True)
class TableText:
    """Heading and remarks of a table.

    Attributes:
        title: Heading, with the paper's number of the table.
        place: Page and number in the paper; empty for a table that the paper does not have.
        differs: How the setting differs from the paper's; empty where it does not.
    """

    title: str
    place: str = ""
    differs: str = ""


@dataclass(frozen=True)
class FigureText:
    """Kind, heading and labels of a figure.

    Attributes:
        title: Heading, with the paper's number of the figure.
        kind: `lines`: y over a numeric x, with a band from low to high. `bars`: a bar per x and
            series, with an interval. `sorted`: values of each series, sorted by the plot, over
            their rank. `histogram`: counts y of bins whose lower edges are x. `scatter`: x and y.
        x_label: Label of the horizontal axis, with its unit in parentheses.
        y_label: Label of the vertical axis, with its unit in parentheses.
        place: Page and number in the paper; empty for a figure that the paper does not have.
        caption: What the figure shows, and how it differs from the paper's.
        log: Whether the vertical axis is logarithmic.
    """

    title: str
    kind: Kind
    x_label: str
    y_label: str
    place: str = ""
    caption: str = ""
    log: bool = False


@dataclass(frozen=True)
class Results:
    """Everything that was measured for one paper.

    Attributes:
        tables: Rows of TABLE, in the order of the page.
        table_texts: Texts by name of the table.
        figures: Rows of FIGURE.
        figure_texts: Texts by name of the figure; the name is that of its SVG.
        claims: Rows of CLAIM.
    """

    tables: pl.DataFrame
    table_texts: Mapping[str, TableText]
    figures: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=FIGURE))
    figure_texts: Mapping[str, FigureText] = field(default_factory=dict)
    claims: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CLAIM))
