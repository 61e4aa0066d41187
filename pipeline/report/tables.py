"""Tables of a report, for one setting."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

import polars as pl

from hindcast.pipeline.evaluation.anchors import Anchor
from hindcast.pipeline.evaluation.summary.finding import gain
from hindcast.pipeline.evaluation.summary.pairing import Setting
from hindcast.pipeline.evaluation.summary.rows import tie_tolerance
from hindcast.pipeline.evaluation.summary.summarise import Summary
from hindcast.pipeline.pages.numbers import (
    MISSING,
    count_of,
    decimals_for,
    decimals_telling,
    name_with_unit,
    write_interval,
    write_number,
)
from hindcast.pipeline.pages.tables import NOTHING, Badge, Cell, Row, Table, number_cell
from hindcast.pipeline.scenarios.queue.requests import reads_requests
from hindcast.pipeline.workloads.caveats import NO_LIMITS

_SHORTFALLS: Final = ("truncated", "unfinished", "dropped", "rejected")
_MARKED: Final = frozenset({"learned", "mixture", "knows run times", "recorded"})
_Side: TypeAlias = Literal["better", "worse", "same"]


def rows_of(summary: Summary, setting: Setting, metric: str) -> list[dict[str, Any]]:
    """Return the rows of a metric, one per policy, compared with the strongest simple policy.

    The best policy comes first. Without a simple policy, the rows have no comparison.
    """
    rows = summary.rows(setting, metric)
    strongest = summary.strongest[setting.label]
    if strongest is not None:
        against = rows.filter(pl.col("reference") == strongest)
        if not against.is_empty():
            return against.to_dicts()
    return rows.unique("policy", keep="first", maintain_order=True).to_dicts()


def shortfalls(summary: Summary, setting: Setting) -> dict[str, dict[str, float]]:
    """Return work that a mean hides, such as rejected jobs: metric -> policy -> total."""
    found = {}
    for metric in summary.metrics(setting):
        if metric.name.startswith(_SHORTFALLS) and metric.name != setting.first.headline:
            pairing = summary.pairings[setting.label, metric.name]
            totals = {p.name: float(p.window_means.sum()) for p in pairing.policies}
            if any(totals.values()):
                found[metric.name] = totals
    return found


def main_table(summary: Summary, setting: Setting, anchor: Anchor | None) -> Table:
    """Return all policies by the headline metric, best first, with the bound as a row.

    There are scores if `anchor` is one of this metric and of as many windows.
    """
    headline = summary.headline(setting)
    metric, bound = headline.metric, setting.first.bound
    rows = rows_of(summary, setting, metric.name)
    strongest = summary.strongest[setting.label]
    missed = shortfalls(summary, setting)
    decimals = decimals_for(row["mean"] for row in rows)
    bounded = rows[0]["bound"] is not None
    level = f"{summary.level * 100:g} %"
    head = ["policy", f"{name_with_unit('mean', metric.unit)}, {level} interval", "IQM"]
    head += ["ratio to bound"] if bounded else []
    if anchor and (anchor.metric, anchor.count) != (metric.name, len(headline.windows)):
        anchor = None
    head += ["score"] if anchor else []
    if strongest is not None:
        head += [f"difference to {strongest}", "wins / ties / losses", "chance of improvement"]
    head += ["seeds", *(f"{name}, total" for name in missed)]
    body = []
    for row in rows:
        cells = [
            _policy(row, strongest, setting),
            _estimate(row, ("mean", "low", "high"), decimals),
        ]
        cells.append(number_cell(row["iqm"], decimals))
        cells += [number_cell(row["bound_ratio"], 3)] if bounded else []
        cells += [number_cell(anchor.score(row["mean"]), 3)] if anchor else []
        if strongest is not None:
            cells += [_difference(row, decimals), _record(row)]
            cells += [number_cell(row["probability_of_improvement"], 2)]
        cells.append(number_cell(row["seeds"], 0))
        for totals in missed.values():
            total = totals.get(row["policy"])
            cells.append(number_cell(total, 0 if total is None or total == int(total) else 1))
        body.append(Row(cells, "strongest" if row["policy"] == strongest else ""))
    if bounded and bound is not None:
        name = Cell(bound, badges=[Badge(f"{setting.first.bound_kind} bound")])
        cells = [name, number_cell(rows[0]["bound"], decimals), Cell(""), number_cell(1.0, 3)]
        cells += [number_cell(anchor.score(rows[0]["bound"]), 3)] if anchor else []
        body.append(Row([*cells, *(Cell("") for _ in head[len(cells) :])], "bound", pinned=True))
    better = "" if metric.better == "neither" else f", {metric.better} is better"
    text = f" on {count_of(len(headline.windows), 'window')}."
    if metric.description:
        text += f" {metric.description[0].upper()}{metric.description[1:].rstrip('.')}."
    if strongest is not None:
        text += " A difference is coloured if its interval excludes zero."
    if anchor:
        text += f" The score of random is 0 and that of {anchor.best} 1 (mean "
        text += f"{write_number(anchor.best_mean, decimals)} in the tables of Hindcast)."
    return Table(f"{metric.name}{better}", text, head, body)


def references_table(summary: Summary, setting: Setting) -> Table:
    """Return paired differences of every policy to every reference."""
    metric = summary.headline(setting).metric
    rows = summary.rows(setting, metric.name).to_dicts()
    references = summary.references[setting.label]
    decimals = decimals_for(row["mean"] for row in rows)
    strongest = summary.strongest[setting.label]
    by_policy: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_policy.setdefault(row["policy"], {})[row["reference"]] = row
    body = []
    for against in by_policy.values():
        cells = [_policy(next(iter(against.values())), strongest, setting)]
        for reference in references:
            row = against[reference]
            if row["paired_difference"] is None:
                cells.append(Cell(NOTHING))
                continue
            counts = _counts(row) if row["wins"] is not None else ""
            cells.append(replace(_difference(row, decimals), more=counts))
        body.append(Row(cells))
    title = f"Policy minus reference, {name_with_unit(metric.name, metric.unit)}"
    text = f", {summary.level * 100:g} % interval, and windows won / tied / lost."
    return Table(title, text, ["policy", *(f"against {name}" for name in references)], body)


def planned_table(setting: Setting, comparisons: Sequence[Sequence[str]]) -> Table | None:
    """Return the comparisons of the setting's plans as one family; None without a plan.

    `comparisons` are rows of `hindcast.pipeline.evaluation.summary.planned.cells`.
    """
    if not comparisons:
        return None
    plans = []
    for plan in (e.plan for e in setting.evaluations if e.plan):
        told = f"the plan of {plan.written} (SHA-256 {plan.sha256[:12]})"
        if plan.looks is not None:
            told += f", before which {count_of(plan.looks, 'other agent')} had been scored on "
            told += "these windows on its machine"
        plans.append(told)
    text = f" by {'; '.join(plans)}. p is after Holm's adjustment; MDE is the minimum detectable "
    text += "effect at a power of 80 %."
    head = ["agent", "baseline", "difference", "p", "MDE", "verdict"]
    return Table(
        "Planned comparisons", text, head, [Row([Cell(c) for c in row]) for row in comparisons]
    )


def windows_table(summary: Summary, setting: Setting) -> Table | None:
    """Return the windows on which policies win and lose most; None if no two can be compared."""
    headline, strongest = summary.headline(setting), summary.strongest[setting.label]
    reference = headline.find(strongest) if strongest else None
    if reference is None or len(headline.policies) < 2:
        return None
    sign = 1.0 if headline.metric.better == "higher" else -1.0
    rows = rows_of(summary, setting, headline.metric.name)
    decimals = decimals_for(row["mean"] for row in rows)
    compared = summary.rows(setting, headline.metric.name).filter(reference=strongest)
    against = {row["policy"]: row for row in compared.to_dicts()}
    body = []
    for row in rows:
        policy = headline.find(row["policy"])
        if policy is None or policy.name == reference.name:
            continue
        gains = sign * (policy.window_means - reference.window_means)
        tie = tie_tolerance(policy.values, reference.values)
        cells = [_policy(row, strongest, setting)]
        for at, differs, side in (
            (int(gains.argmax()), gains.max() > tie, "better"),
            (int(gains.argmin()), gains.min() < -tie, "worse"),
        ):
            if not differs:
                cells += [Cell(NOTHING), Cell(NOTHING)]
                continue
            own, other = float(policy.window_means[at]), float(reference.window_means[at])
            shown = write_number(own - other, decimals, signed=True)
            values = f"{write_number(own, decimals)} against {write_number(other, decimals)}"
            window = headline.windows[at]
            cells.append(Cell(f"window {window}", float(window)))
            cells.append(Cell(shown, own - other, values, side))
        pair = against[row["policy"]]
        cells.append(number_cell(pair["windows_of_half"] or None, 0))
        cells.append(number_cell(pair["autocorrelation"], 2))
        body.append(Row(cells))
    unit = name_with_unit("difference there", headline.metric.unit)
    head = ["policy", "best window", unit, "worst window", unit]
    head += ["windows of half the difference", "lag-1 autocorrelation"]
    split = f" of the {setting.first.split} split" if setting.first.split else ""
    text = (
        f" against {strongest}: where each policy wins and loses most in {headline.metric.name}. A "
        f"window is named by its index in the workload{split}; with the recipe, it identifies the "
        "instance. The lines below a difference are the values of the policy and of the reference."
    )
    return Table("Best and worst windows", text, head, body)


def metrics_table(summary: Summary, setting: Setting) -> Table | None:
    """Return means of all other metrics, in the headline's order; None if there are none."""
    others = [m for m in summary.metrics(setting) if m.name != setting.first.headline]
    if not others:
        return None
    order = rows_of(summary, setting, setting.first.headline)
    columns = {m.name: {r["policy"]: r for r in rows_of(summary, setting, m.name)} for m in others}
    decimals = {n: decimals_for(r["mean"] for r in rows.values()) for n, rows in columns.items()}
    strongest = summary.strongest[setting.label]
    body = []
    for row in order:
        cells = [_policy(row, strongest, setting)]
        for name, found in columns.items():
            other = found.get(row["policy"])
            shown = ("mean", "low", "high")
            cells.append(_estimate(other, shown, decimals[name]) if other else Cell(MISSING))
        body.append(Row(cells))
    better = {"lower": ", lower is better", "higher": ", higher is better", "neither": ""}
    head = [name_with_unit(m.name, m.unit) + better[m.better] for m in others]
    text = f", means with {summary.level * 100:g} % intervals, in the order of the main table."
    return Table("All other metrics", text, ["policy", *head], body)


def seeds_table(summary: Summary, setting: Setting) -> Table | None:
    """Return seeds and training seeds one by one; None if every policy has one."""
    rows = summary.seed_rows(setting)
    if not rows:
        return None
    strongest = summary.strongest[setting.label]
    decimals = decimals_for(row["mean"] for row in rows)
    head = ["policy", "seed", "mean", "IQM", "median"]
    head += [f"difference to {strongest}", "wins / ties / losses"] if strongest else []
    body = []
    for row in rows:
        cells = [_policy(row, None, setting), Cell(row["run"])]
        cells += [_estimate(row, ("mean", "low", "high"), decimals)]
        cells += [number_cell(row["iqm"], decimals), number_cell(row["median"], decimals)]
        cells += [_difference(row, decimals), _record(row)] if strongest else []
        body.append(Row(cells))
    text = ": the runs behind the pooled rows. Training seeds are named after their run."
    return Table("Seeds one by one", text, head, body, words=2)


def policies_table(setting: Setting) -> Table:
    """Return kind, group, checkpoint and digest of every policy."""
    body = [
        Row(
            [
                Cell(entry.name),
                Cell(entry.kind),
                Cell(entry.group if entry.group != entry.name else ""),
                Cell(entry.checkpoint or ""),
                Cell(entry.digest[:16] if entry.digest else "", code=bool(entry.digest)),
            ]
        )
        for entry in setting.entries.values()
    ]
    head = ["policy", "kind", "pooled as", "checkpoint", "digest"]
    return Table("Policies", f" of {setting.label}.", head, body, words=len(head))


def _policy(row: Mapping[str, Any], strongest: str | None, setting: Setting) -> Cell:
    badges = []
    kinds = {row["kind"]} & _MARKED
    if row["scenario"] == "queue" and reads_requests(row["policy"]):
        codes = {caveat.code for each in setting.evaluations for caveat in each.caveats}
        kinds |= {"knows run times"} if NO_LIMITS in codes else set()
    badges += [Badge(kind, kind.partition(" ")[0]) for kind in sorted(kinds)]
    if row["policy"] == strongest:
        badges.append(Badge("strongest simple", "strongest"))
    return Cell(row["policy"], badges=badges)


def _estimate(row: Mapping[str, Any], columns: Sequence[str], decimals: int) -> Cell:
    value, low, high = (row[column] for column in columns)
    if low is None or low == high == value:
        return number_cell(value, 0 if value == int(value) else decimals)
    return Cell(write_number(value, decimals), value, write_interval(low, high, decimals))


def _difference(row: Mapping[str, Any], decimals: int) -> Cell:
    value = row["paired_difference"]
    if value is None:
        return Cell(NOTHING)
    low, high = row["paired_low"], row["paired_high"]
    if abs(value) * 10**decimals < 10:
        decimals = min(decimals + 2, decimals_telling([value, low, high], decimals))
    small = write_interval(low, high, decimals, signed=True) if low is not None else ""
    return Cell(write_number(value, decimals, signed=True), value, small, _side(row))


def _side(row: Mapping[str, Any]) -> _Side:
    """Return better or worse if the interval excludes zero and the metric has a direction."""
    _, low, high = gain(row)
    if row["better"] == "neither" or low is None or high is None:
        return "same"
    return "better" if low > 0 else "worse" if high < 0 else "same"


def _record(row: Mapping[str, Any]) -> Cell:
    if row["wins"] is None:
        return Cell(NOTHING)
    total = row["wins"] + row["ties"] + row["losses"]
    widths = {"w": 100 * row["wins"] / total, "l": 100 * row["losses"] / total}
    return Cell(_counts(row), float(row["wins"]), record=widths)


def _counts(row: Mapping[str, Any]) -> str:
    return f"{row['wins']} / {row['ties']} / {row['losses']}"
