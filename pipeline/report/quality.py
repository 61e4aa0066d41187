"""Values of a report about data-quality studies: means by varied value, and the table."""

from itertools import cycle
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.evaluation.studies.page import INTRODUCTION, by_point
from hindcast.pipeline.evaluation.studies.study import read_study
from hindcast.pipeline.pages.numbers import decimals_for, name_with_unit, write_estimate
from hindcast.pipeline.pages.tables import Cell, Row, Table
from hindcast.pipeline.report import svg

_BASELINES: Final = 3  # best rules that are drawn, by mean; random is always drawn
_DECADES: Final = 30  # ratio of the largest to the smallest mean above which the scale is log
_DASHES: Final = ((0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1)))


def quality_part(folder: Path) -> dict[str, Any]:
    """Return the values of the section about a folder of `hindcast study`, see report.html.jinja.

    Raises DatasetError for a folder without study.parquet, or with other columns.
    """
    rows = read_study(folder)
    first = rows.row(0, named=True)
    return {
        "recipe": first["recipe"],
        "vary": first["vary"],
        "introduction": INTRODUCTION.get(first["vary"], ""),
        "side": "higher" if first["higher_is_better"] else "lower",
        "plot": quality_plot(rows),
        "means": _table(rows),
    }


def quality_plot(rows: pl.DataFrame) -> str:
    """Plot one line per agent and one for the log, and rules as horizontal lines, as SVG."""
    values, names, cells = by_point(rows)
    first = rows.row(0, named=True)
    lines = [n for n in names if _kind(cells, n, values) in {"learned", "mixture"}]
    rules = _rules(rows, first["higher_is_better"])
    step = 0.5 / max(1, len(lines))
    with svg.settings():
        plot = svg.new_figure(10.4, 3.8)
        axes = plot.add_subplot()
        svg.style_axes(axes, grid="y")
        for (name, mean), dash in zip(rules.items(), cycle(_DASHES), strict=False):
            axes.axhline(mean, color=svg.MUTED, linewidth=1.0, linestyle=dash, label=name)
        for i, (name, color) in enumerate(zip(lines, cycle(svg.LINES), strict=False)):
            at = [(j, cells[name, v]) for j, v in enumerate(values) if (name, v) in cells]
            xs = [j + (i - (len(lines) - 1) / 2) * step for j, _ in at]
            own = svg.INK if _kind(cells, name, values) == "mixture" else color
            axes.plot(xs, [row["mean"] for _, row in at], color=own, linewidth=1.4, marker="o",
                      markersize=5, markeredgecolor=svg.PAPER, label=name)  # fmt: skip
            for x, (_, row) in zip(xs, at, strict=True):
                if row["low"] is not None and row["high"] is not None:
                    axes.plot([x, x], [row["low"], row["high"]], color=own, linewidth=2, alpha=0.5)
        if _spreads(rows):
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
            axes.tick_params(axis="y", which="minor", length=0)
        axes.set_xticks(range(len(values)), values)
        axes.set_xlim(-0.5, len(values) - 0.5)
        axes.set_xlabel(first["vary"])
        axes.set_ylabel(name_with_unit(first["metric"], first["unit"] or ""))
        legend = axes.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, labelcolor=svg.INK
        )
        legend.get_frame().set(facecolor=svg.PAPER, edgecolor=svg.GRID)
        described = "; ".join(
            f"{n}: "
            + ", ".join(f"{v} {cells[n, v]['mean']:.4g}" for v in values if (n, v) in cells)
            for n in lines
        )
        name = f"quality {first['recipe']} {first['vary']}"
        return svg.to_svg(plot, name, f"Means by {first['vary']}. {described}")


def _spreads(rows: pl.DataFrame) -> bool:
    """Return whether a linear scale would squeeze all but the worst policy into a line."""
    means: list[float] = rows["mean"].to_list()
    lowest = min([*means, *rows["low"].drop_nulls().to_list()])
    return bool(lowest > 0 and max(means) > _DECADES * lowest)


def _rules(rows: pl.DataFrame, higher: bool) -> dict[str, float]:
    """Return the means of the best rules and of random, which do not depend on the log."""
    simple = rows.filter(pl.col("kind").is_in(["heuristic", "random"]))
    means = simple.group_by("policy", "kind", maintain_order=True).agg(pl.col("mean").mean())
    means = means.sort("mean", descending=higher, maintain_order=True)
    drawn = means.head(_BASELINES)["policy"].to_list()
    return {p: m for p, k, m in means.iter_rows() if p in drawn or k == "random"}


def _kind(cells: dict[tuple[str, str], dict[str, Any]], name: str, values: list[str]) -> str:
    return next(str(cells[name, v]["kind"]) for v in values if (name, v) in cells)


def _table(rows: pl.DataFrame) -> Table:
    values, names, cells = by_point(rows)
    decimals = decimals_for(rows["mean"].to_list())
    counts = dict(rows.select("value", "train_decisions").iter_rows())
    body = []
    for name in names:
        found = [cells.get((name, value)) for value in values]
        body.append(Row([Cell(name), *(_cell(row, decimals) for row in found)]))
    logged = [Cell(f"{counts[value]:,}", counts[value]) for value in values]
    body.append(Row([Cell("train decisions"), *logged], pinned=True))
    first = rows.row(0, named=True)
    return Table("Data quality.", f" Mean {first['metric']} by {first['vary']}, 95 % interval.",
                 ["policy", *values], body)  # fmt: skip


def _cell(row: dict[str, Any] | None, decimals: int) -> Cell:
    if row is None:
        return Cell("n/a")
    return Cell(write_estimate(row["mean"], row["low"], row["high"], decimals), row["mean"])
