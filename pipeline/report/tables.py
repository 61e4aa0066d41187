"""Tables of a report, for one setting."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from hindcast.pipeline.evaluation.anchors import Anchor
from hindcast.pipeline.evaluation.requests import reads_requests
from hindcast.pipeline.evaluation.summary.finding import gain
from hindcast.pipeline.evaluation.summary.pairing import Setting
from hindcast.pipeline.evaluation.summary.summarise import SettingSummary
from hindcast.pipeline.pages.numbers import (
    MISSING,
    count_of,
    decimals_for,
    name_with_unit,
    write_number,
)
from hindcast.pipeline.pages.tables import (
    Badge,
    Cell,
    Column,
    Content,
    Difference,
    Measured,
    Row,
    Table,
)
from hindcast.pipeline.statistics.intervals import LEVEL_TEXT, tie_tolerance
from hindcast.pipeline.workloads.caveats import NO_LIMITS

_MARKED: Final = frozenset({"learned", "mixture", "knows run times", "recorded"})
_Side: TypeAlias = Literal["better", "worse", "same"]


def main_table(
    summary: SettingSummary, anchor: Anchor | None, missed: Mapping[str, Mapping[str, float]]
) -> Table:
    """Return all policies by the headline metric, best first, with the bound as a row.

    Args:
        summary: The setting.
        anchor: There are scores if it is one of this metric and of as many windows.
        missed: Totals by metric and policy of what a mean hides.
    """
    setting, strongest = summary.setting, summary.strongest
    metric, bound = setting.headline.metric, setting.first.bound
    windows = len(setting.headline.windows)
    rows = summary.rows[metric.name]
    means = [row["mean"] for row in rows]
    bounded = rows[0]["bound"] is not None
    if anchor and (anchor.metric, anchor.count) != (metric.name, windows):
        anchor = None
    head: list[str | Column] = [
        "policy",
        Column(f"{name_with_unit('mean', metric.unit)}, {LEVEL_TEXT} interval", means),
        Column("IQM", means),
    ]
    head += [Column("ratio to bound", decimals=3)] if bounded else []
    head += [Column("score", decimals=3)] if anchor else []
    if strongest is not None:
        head += [Column(f"difference to {strongest}", means), "wins / ties / losses"]
        head += [Column("chance of improvement", decimals=2)]
    head += [Column("seeds", decimals=0)]
    head += [Column(f"{name}, total", decimals=1) for name in missed]
    body = []
    for row in rows:
        cells: list[Content] = [_policy(row, strongest, setting), _measured(row), row["iqm"]]
        cells += [row["bound_ratio"]] if bounded else []
        cells += [anchor.score(row["mean"])] if anchor else []
        if strongest is not None:
            cells += [_difference(row), _record(row), row["probability_of_improvement"]]
        cells.append(row["seeds"])
        for totals in missed.values():
            total = totals.get(row["policy"])
            cells.append(None if total is None else Measured(total))
        body.append(Row(cells, "strongest" if row["policy"] == strongest else ""))
    if bounded and bound is not None:
        name = Cell(bound, badges=[Badge(f"{setting.first.bound_kind} bound")])
        cells = [name, rows[0]["bound"], Cell(""), 1.0]
        cells += [anchor.score(rows[0]["bound"])] if anchor else []
        body.append(Row([*cells, *(Cell("") for _ in head[len(cells) :])], "bound", pinned=True))
    better = "" if metric.better == "neither" else f", {metric.better} is better"
    text = f" on {count_of(windows, 'window')}."
    if metric.description:
        text += f" {metric.description[0].upper()}{metric.description[1:].rstrip('.')}."
    if strongest is not None:
        text += " A difference is coloured if its interval excludes zero."
    if anchor:
        best = write_number(anchor.best_mean, decimals_for(means))
        text += f" The score of random is 0 and that of {anchor.best} 1 (mean {best} in the tables "
        text += "of Hindcast)."
    return Table(f"{metric.name}{better}", text, head, body)


def references_table(summary: SettingSummary) -> Table | None:
    """Return paired differences of every policy to every reference; None without references."""
    setting, references = summary.setting, summary.references
    if not references:
        return None
    metric = setting.headline.metric
    against = {(row["policy"], row["reference"]): row for row in summary.table[metric.name]}
    rows = summary.rows[metric.name]
    means = [row["mean"] for row in rows]
    body = [
        Row([
            _policy(row, summary.strongest, setting),
            *(_difference(pair := against[row["policy"], name], _counts(pair))
              for name in references),
        ])
        for row in rows
    ]  # fmt: skip
    title = f"Policy minus reference, {name_with_unit(metric.name, metric.unit)}"
    text = f", {LEVEL_TEXT} interval, and windows won / tied / lost."
    head: list[str | Column] = [
        "policy",
        *(Column(f"against {name}", means) for name in references),
    ]
    return Table(title, text, head, body)


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


def windows_table(summary: SettingSummary) -> Table | None:
    """Return the windows on which policies win and lose most; None if no two can be compared."""
    setting, strongest = summary.setting, summary.strongest
    headline = setting.headline
    if strongest is None or len(headline.policies) < 2:
        return None
    reference = headline.by_name[strongest]
    sign = 1.0 if headline.metric.better == "higher" else -1.0
    rows = summary.rows[headline.metric.name]
    means = [row["mean"] for row in rows]
    body = []
    for row in rows:
        policy = headline.by_name[row["policy"]]
        if policy is reference:
            continue
        gains = sign * (policy.window_means - reference.window_means)
        tie = tie_tolerance(policy.values, reference.values)
        cells: list[Content] = [_policy(row, strongest, setting)]
        for at, differs, side in (
            (int(gains.argmax()), gains.max() > tie, "better"),
            (int(gains.argmin()), gains.min() < -tie, "worse"),
        ):
            if not differs:
                cells += [None, None]
                continue
            of = (float(policy.window_means[at]), float(reference.window_means[at]))
            window = headline.windows[at]
            cells.append(Cell(f"window {window}", float(window)))
            cells.append(Difference(of[0] - of[1], side=side, of=of))
        body.append(Row([*cells, row["windows_of_half"] or None, row["autocorrelation"]]))
    there = Column(name_with_unit("difference there", headline.metric.unit), means)
    head: list[str | Column] = [
        "policy", "best window", there, "worst window", there,
        Column("windows of half the difference", decimals=0),
        Column("lag-1 autocorrelation", decimals=2),
    ]  # fmt: skip
    split = f" of the {setting.first.split} split" if setting.first.split else ""
    text = (
        f" against {strongest}: where each policy wins and loses most in {headline.metric.name}. A "
        f"window is named by its index in the workload{split}; with the recipe, it identifies the "
        "instance. The lines below a difference are the values of the policy and of the reference."
    )
    return Table("Best and worst windows", text, head, body)


def metrics_table(summary: SettingSummary) -> Table | None:
    """Return means of all other metrics, in the headline's order; None if there are none."""
    setting, rows = summary.setting, summary.rows
    headline = setting.first.headline
    others = {
        m.name: {row["policy"]: row for row in rows[m.name]}
        for m in setting.metrics if m.name in rows and m.name != headline
    }  # fmt: skip
    if not others:
        return None
    body = [
        Row([
            _policy(row, summary.strongest, setting),
            *(_measured(of[row["policy"]]) if row["policy"] in of else Cell(MISSING)
              for of in others.values()),
        ])
        for row in rows[headline]
    ]  # fmt: skip
    better = {"lower": ", lower is better", "higher": ", higher is better", "neither": ""}
    head = [
        Column(
            name_with_unit(m.name, m.unit) + better[m.better],
            [row["mean"] for row in rows[m.name]],
        )
        for m in setting.metrics
        if m.name in others
    ]
    text = f", means with {LEVEL_TEXT} intervals, in the order of the main table."
    return Table("All other metrics", text, ["policy", *head], body)


def seeds_table(summary: SettingSummary) -> Table | None:
    """Return seeds and training seeds one by one; None if every policy has one."""
    setting, strongest = summary.setting, summary.strongest
    rows = summary.seeds[setting.first.headline]
    if not rows:
        return None
    means = [row["mean"] for row in rows]
    head: list[str | Column] = [
        "policy",
        "seed",
        *(Column(n, means) for n in ("mean", "IQM", "median")),
    ]
    if strongest is not None:
        head += [Column(f"difference to {strongest}", means), "wins / ties / losses"]
    body = []
    for row in rows:
        cells: list[Content] = [_policy(row, None, setting), Cell(row["run"]), _measured(row)]
        cells += [row["iqm"], row["median"]]
        cells += [_difference(row), _record(row)] if strongest is not None else []
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
    """Return the cell with the name of a policy, and badges for its kind and its role."""
    badges = []
    kinds = {row["kind"]} & _MARKED
    if row["scenario"] == "queue" and reads_requests(row["policy"]):
        codes = {caveat.code for each in setting.evaluations for caveat in each.caveats}
        kinds |= {"knows run times"} if NO_LIMITS in codes else set()
    badges += [Badge(kind, kind.partition(" ")[0]) for kind in sorted(kinds)]
    if row["policy"] == strongest:
        badges.append(Badge("strongest simple", "strongest"))
    return Cell(row["policy"], badges=badges)


def _measured(row: Mapping[str, Any]) -> Measured:
    return Measured(row["mean"], row["low"], row["high"])


def _difference(row: Mapping[str, Any], more: str = "") -> Difference:
    value, low, high = (row[f"paired_{name}"] for name in ("difference", "low", "high"))
    return Difference(value, low, high, _side(row), more)


def _side(row: Mapping[str, Any]) -> _Side:
    """Return better or worse if the interval excludes zero and the metric has a direction."""
    _, low, high = gain(row)
    if row["better"] == "neither" or low is None or high is None:
        return "same"
    return "better" if low > 0 else "worse" if high < 0 else "same"


def _record(row: Mapping[str, Any]) -> Content:
    """Return wins, ties and losses as a cell with a bar; None without a comparison."""
    if row["wins"] is None:
        return None
    total = row["wins"] + row["ties"] + row["losses"]
    widths = {"w": 100 * row["wins"] / total, "l": 100 * row["losses"] / total}
    return Cell(_counts(row), float(row["wins"]), record=widths)


def _counts(row: Mapping[str, Any]) -> str:
    return "" if row["wins"] is None else f"{row['wins']} / {row['ties']} / {row['losses']}"
