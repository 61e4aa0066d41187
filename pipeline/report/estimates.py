"""Values of a report about off-policy estimates: values, truth, ranking, warnings."""

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.estimators.selection import best_of_first
from hindcast.pipeline.estimators.verdicts import BESIDE
from hindcast.pipeline.evaluation.summary.evaluations import read_table
from hindcast.pipeline.pages.numbers import decimals_for, write_estimate, write_number
from hindcast.pipeline.pages.tables import Cell, Row, Table
from hindcast.pipeline.report import svg
from hindcast.pipeline.storage.files import read_json

_NEEDED: Final = (
    "policy", "estimator", "value", "low", "high", "ess", "episodes", "truth", "warnings",
)  # fmt: skip
_COLUMNS: Final = 3
_TRIALS: Final = 8  # rows of the table of trials
_SHOWN: Final = 9  # estimators with a panel, best rank correlation first


def estimates_part(folder: Path) -> dict[str, Any]:
    """Return the values of the section about a folder of `hindcast ope`, see report.html.jinja.

    Raises DatasetError for a folder without ope.json, or one that lacks a column.
    """
    about = read_json(folder / "ope.json")
    if not isinstance(about, dict) or not isinstance(about.get("estimators"), list):
        raise DatasetError(
            f"{folder / 'ope.json'}: lacks the list 'estimators' that `hindcast ope` writes"
        )
    rows = _rows(folder / "estimates.parquet")
    known = [row for row in rows if row["truth"] is not None and row["value"] is not None]
    return {
        "about": about,
        "selection": _selection(about) if known else None,
        "trials": _trials(rows, [str(e["name"]) for e in about["estimators"]]) if known else None,
        "plot": _scatter(about, known, folder) if known else None,
        "estimates": _values(rows, [str(e.get("name")) for e in about["estimators"]]),
        "warnings": _warnings(rows),
    }


def _rows(path: Path) -> list[dict[str, Any]]:
    frame = read_table(path)
    if missing := [c for c in _NEEDED if c not in frame.columns]:
        raise DatasetError(f"{path}: column {missing[0]!r} is missing")
    return frame.to_dicts()


def _selection(about: Mapping[str, Any]) -> Table:
    """Return the table of how well each estimator orders and selects policies."""
    asked = [*about["estimators"], about.get("consensus") or {}]
    found = [e for e in asked if "rank_correlation" in e]
    found.sort(key=lambda e: -_rank(e))
    decimals = decimals_for(v for e in found for v in e["regret"].values())
    ks = sorted({k for e in found for k in e["regret"]}, key=int)
    head = [
        "estimator",
        "rank correlation",
        "of policies not in the log",
        *(f"regret@{k}" for k in ks),
    ]
    head += [*(f"SharpeRatio@{k}" for k in ks if k != "1"), "type I error", "type II error"]
    body = []
    for e in found:
        cells = [Cell(str(e["name"])), _cell(e["rank_correlation"], 2)]
        cells.append(_cell(e.get("rank_correlation_new"), 2))
        cells += [_cell(e["regret"].get(k), decimals) for k in ks]
        cells += [_cell(e["sharpe"].get(k), 2) for k in ks if k != "1"]
        cells += [_cell(e["type_1"], 2), _cell(e["type_2"], 2)]
        body.append(Row(cells))
    reference = about.get("reference")
    text = (
        " Rank correlation: Spearman's, of estimates and true returns. regret@k: gap between the "
        "best of the k policies that the estimator ranks highest and the best of all. "
        "SharpeRatio@k: gain of that policy over the log, divided by the spread of the k. Type I "
        f"and II errors: of the claim that a policy is better than {reference}, the best rule."
    )
    if about.get("consensus"):
        text += f" The consensus is the {about['consensus']['description']}."
    return Table("How well estimators pick", text, head, body)


def _trials(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    """Return what the best of the first k policies is worth, by estimator."""
    decimals, columns = decimals_for(row["truth"] for row in rows), []
    for name in names:
        own = [row for row in rows if row["estimator"] == name and row["truth"] is not None]
        truth = [row["truth"] for row in own]
        best = best_of_first([_or(row["value"], float("-inf")) for row in own], truth)[1]
        columns.append([truth[at] for at in best])
    body = [
        Row([Cell(str(k)), *(_cell(value, decimals) for value in line)])
        for k, line in enumerate(islice(zip(*columns, strict=True), _TRIALS), start=1)
    ]
    text = (
        " True return of the best of the first k policies, in the order of each estimator: what is "
        "found if k of them are tried online, long enough to know which is best."
    )
    return Table("Trials", text, ["k", *names], body)


def _values(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    policies = dict.fromkeys(row["policy"] for row in rows)
    by = {(row["policy"], row["estimator"]): row for row in rows}
    decimals = decimals_for(row["truth"] for row in rows)
    best = sorted(policies, key=lambda p: -_or(by[p, names[0]]["truth"], float("-inf")))
    body = []
    for policy in best:
        own = [by[policy, name] for name in names]
        cells = [Cell(policy), _cell(own[0]["truth"], decimals)]
        for row in own:
            text = write_estimate(row["value"], row["low"], row["high"], decimals)
            text += " ~" if row.get("verdict") == BESIDE else ""
            cells.append(Cell(text + (" !" if row["warnings"] else ""), row["value"]))
        cells.append(_cell(min((r["ess"] for r in own if r["ess"] is not None), default=None), 1))
        body.append(Row(cells))
    head = ["policy", "true return", *names, "smallest ess"]
    episodes = rows[0]["episodes"]
    text = (
        " Estimates have bootstrap intervals over windows, unless too few episodes have weight. "
        "Those marked ~ may be biased and have none; those marked ! have warnings. The best true "
        "return comes first. The last column is the smallest effective "
        f"sample size of any estimator, of {episodes:,} episodes."
    )
    return Table("Estimates beside the truth", text, head, body)


def _warnings(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """Return the estimators that have each warning, by policy and warning."""
    found: dict[tuple[str, str], list[str]] = {}
    order = {policy: i for i, policy in enumerate(dict.fromkeys(row["policy"] for row in rows))}
    for row in sorted(rows, key=lambda row: order[row["policy"]]):
        for warning in row["warnings"]:
            found.setdefault((row["policy"], warning), []).append(row["estimator"])
    return found


def _scatter(about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """Return one panel per estimator: the estimate of every policy against its true return."""
    order = sorted(about["estimators"], key=lambda e: -_rank(e))
    names = [str(e["name"]) for e in order][:_SHOWN]
    panels = {name: [row for row in rows if row["estimator"] == name] for name in names}
    drawn = {name: own for name, own in panels.items() if own}
    return scatter_plot(drawn, f"estimates {folder.name}")


def scatter_plot(panels: Mapping[str, Sequence[Mapping[str, Any]]], name: str) -> str:
    """Return panels by estimator as an inline SVG.

    Rows need truth, value, low, high and warnings.
    """
    lines = -(-len(panels) // _COLUMNS)
    truths = [row["truth"] for own in panels.values() for row in own]
    low, high = min(truths), max(truths)
    room = 0.35 * ((high - low) or 1.0)
    with svg.settings():
        plot = svg.new_figure(10.4, 2.7 * lines + 0.2)
        for i, ((estimator, own), color) in enumerate(
            zip(panels.items(), cycle(svg.LINES), strict=False), start=1
        ):
            axes = plot.add_subplot(lines, _COLUMNS, i)
            svg.style_axes(axes, grid="both")
            axes.plot([low, high], [low, high], color=svg.MUTED, linewidth=0.8)
            outside = 0
            for row in own:
                inside = low - room <= row["value"] <= high + room
                outside += not inside
                shown = min(max(row["value"], low - room), high + room)
                if inside and row["low"] is not None and row["high"] is not None:
                    ends = [min(max(row[k], low - room), high + room) for k in ("low", "high")]
                    axes.plot([row["truth"]] * 2, ends, color=color, linewidth=1.6, alpha=0.45)
                marker = "o" if inside else "^" if row["value"] > high else "v"
                axes.plot(
                    [row["truth"]], [shown], marker=marker, markersize=5, color=color,
                    markerfacecolor=svg.PAPER if row["warnings"] else color,
                )  # fmt: skip
            axes.set_ylim(low - 1.1 * room, high + 1.1 * room)
            title = estimator + (f", {outside} outside" if outside else "")
            axes.set_title(title, fontsize=8.5, color=svg.INK, loc="left")
            axes.spines["bottom"].set_color(svg.GRID)
            if i > len(panels) - _COLUMNS:
                axes.set_xlabel("true return")
            if i % _COLUMNS == 1:
                axes.set_ylabel("estimate")
        described = "; ".join(
            f"{estimator}: " + ", ".join(f"{r['policy']} {r['value']:.4g}" for r in own)
            for estimator, own in panels.items()
        )
        return svg.to_svg(plot, name, f"Estimates of true returns. {described}")


def _rank(e: Mapping[str, Any]) -> float:
    return _or(e.get("rank_correlation"), -2.0)


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _cell(value: float | None, decimals: int) -> Cell:
    return Cell(write_number(value, decimals), value)
