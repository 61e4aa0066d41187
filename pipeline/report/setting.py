"""Sections of a report about one setting: the finding, tables and plots."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from hindcast.pipeline.evaluation.summary.finding import Finding, gain, state_finding
from hindcast.pipeline.evaluation.summary.pairing import PolicyRuns, Setting
from hindcast.pipeline.evaluation.summary.rows import best_first
from hindcast.pipeline.evaluation.summary.summarise import Summary
from hindcast.pipeline.report.html import (
    Markup,
    captioned,
    definitions,
    element,
    figure,
    joined,
    section,
)
from hindcast.pipeline.report.plots import differences_plot, means_plot, profile_plot, windows_plot
from hindcast.pipeline.report.tables import (
    main_table,
    metrics_table,
    references_table,
    rows_of,
    seeds_table,
    windows_table,
)
from hindcast.pipeline.statistics.intervals import Array
from hindcast.pipeline.statistics.numbers import (
    decimals_for,
    decimals_telling,
    name_with_unit,
    with_unit,
    write_interval,
    write_number,
)
from hindcast.pipeline.workloads.caveats import Caveat

_VERDICTS: Final = {
    "win": "Clear gain",
    "unclear": "No clear gain",
    "loss": "No gain",
    "incomparable": "No comparison",
}
_PROFILES: Final = 8  # curves of a performance profile; more are hard to read


def setting_section(summary: Summary, setting: Setting, identifier: str, title: str) -> Markup:
    """Return the finding, the main table, plots, comparisons and other metrics."""
    finding = state_finding(summary, setting)
    parts = [
        *caveats_box([c for e in setting.evaluations for c in e.caveats]),
        _finding_card(summary, setting, finding),
        main_table(summary, setting),
        element("div", joined(_plots(summary, setting, finding)), class_="plots"),
    ]
    if summary.references[setting.label]:
        parts.append(references_table(summary, setting))
    more = (
        windows_table(summary, setting),
        metrics_table(summary, setting),
        seeds_table(summary, setting),
    )
    parts += [part for part in more if part]
    return section(identifier, title, *parts)


def caveats_box(caveats: Sequence[Caveat]) -> list[Markup]:
    """Return a box with the texts of caveats, each once; nothing if there are none."""
    texts = dict.fromkeys(caveat.text for caveat in caveats)
    if not texts:
        return []
    head = element("strong", "Before you draw conclusions")
    items = element("ul", joined(element("li", text) for text in texts))
    return [element("div", head, items, class_="caveats", role="note")]


def _finding_card(summary: Summary, setting: Setting, finding: Finding) -> Markup:
    return element(
        "div",
        element("div", _VERDICTS[finding.verdict], class_="verdict"),
        element("p", finding.sentence, class_="lead"),
        definitions(_tiles(summary, setting, finding), "tiles"),
        class_=f"finding {finding.verdict}",
    )


def _tiles(summary: Summary, setting: Setting, finding: Finding) -> Iterator[tuple[str, Markup]]:
    """Yield the four numbers behind the finding."""
    row = finding.learned
    if row is None or finding.baseline is None:
        return
    rows = rows_of(summary, setting, row["metric"])
    baseline = next(other for other in rows if other["policy"] == finding.baseline)
    decimals = decimals_for(other["mean"] for other in rows)
    learned = "Best learned policy" if finding.verdict != "win" else "Learned policy"
    for title, found in ((learned, row), ("Strongest simple policy", baseline)):
        number = with_unit(write_number(found["mean"], decimals), found["unit"])
        yield title, joined([number, element("small", found["policy"])])
    value, low, high = gain(row)
    digits = decimals_telling((value, low, high), decimals_for([value], digits=2))
    share = f" ({100 * value / abs(baseline['mean']):+.1f} %)" if baseline["mean"] else ""
    interval = (
        f"{summary.level * 100:g} % interval {write_interval(low, high, digits, signed=True)}"
        if low is not None
        else "no interval from one window"
    )
    number = with_unit(write_number(value, digits, signed=True), row["unit"])
    yield "Gain, paired", joined([number + share, element("small", interval)])
    if row["bound"] is not None and (gap := abs(baseline["mean"] - row["bound"])) > 0:
        room = with_unit(write_number(gap, decimals), row["unit"])
        text = f"of {room} between {finding.baseline} and the {setting.first.bound_kind} bound"
        number = f"{100 * value / gap:.0f} %"
        yield "Room to the bound closed", joined([number, element("small", text)])


def _plots(summary: Summary, setting: Setting, finding: Finding) -> Iterator[Markup]:
    headline = summary.headline(setting)
    metric = headline.metric
    rows = rows_of(summary, setting, metric.name)
    strongest = summary.strongest[setting.label]
    level = f"{summary.level * 100:g} %"
    drawn = setting.first.bound if rows[0]["bound"] is not None else None
    yield figure(
        means_plot(rows, strongest, drawn),
        captioned(
            "Means.",
            f"Bars are {level} intervals over windows. They show how much windows differ, and may "
            "overlap where one policy is clearly better; see the paired differences.",
        ),
        wide=False,
    )
    if strongest is not None:
        yield figure(
            differences_plot(rows, strongest),
            captioned(
                f"Paired differences to {strongest}.",
                f"On the same windows, with {level} intervals. If a bar crosses zero, there is no "
                "clear difference.",
            ),
            wide=False,
        )
    if finding.learned is not None and finding.baseline is not None:
        yield _windows_figure(summary, setting, finding.learned, finding.baseline)
    yield from _profile(summary, setting)


def _windows_figure(summary: Summary, setting: Setting, row: Any, baseline: str) -> Markup:
    headline = summary.headline(setting)
    policy, other = headline.find(row["policy"]), headline.find(baseline)
    assert policy is not None
    assert other is not None
    difference = policy.window_means - other.window_means
    names = (policy.name, baseline, name_with_unit(row["metric"], row["unit"]))
    svg = windows_plot(difference, row["better"], row["wins"], row["losses"], names)
    caption = captioned(
        f"{policy.name} against {baseline}, window by window.",
        "One bar is one window. A gain that comes from a few windows shows as a thin spike.",
    )
    return figure(svg, caption)


def _profile(summary: Summary, setting: Setting) -> Iterator[Markup]:
    """Yield the plot of ratios to the bound, or to the best policy of each window.

    Nothing is plotted if a value or bound has a sign that makes ratios meaningless.
    """
    headline = summary.headline(setting)
    better = headline.metric.better
    bound = summary.bounds[setting.label]
    if better == "neither" or len(headline.policies) < 2:
        return
    chosen = _profiled(summary, setting)
    every = np.stack([policy.window_means for policy in headline.policies])
    name = setting.first.bound
    if bound is None:
        bound = every.min(axis=0) if better == "lower" else every.max(axis=0)
        name = "the best policy of the window"
    if (bound <= 0).any() or (every < 0).any():
        return
    ratios: dict[str, Array] = {policy.name: policy.values / bound for policy in chosen}
    left = len(headline.policies) - len(chosen)
    text = f"Share of windows on which a policy stays within a ratio to {name}; curves further "
    text += "left and higher are better."
    if left:
        text += f" Learned policies, references and the best others; {left} more are in the table."
    svg = profile_plot(ratios, better, f"{headline.metric.name} / {name}")
    yield figure(svg, captioned("Performance profile.", text))


def _profiled(summary: Summary, setting: Setting) -> list[PolicyRuns]:
    """Return the policies for the profile, best first: learned and references, then the rest."""
    ordered = best_first(summary.headline(setting))
    references = summary.references[setting.label]
    first = [p.name for p in ordered if p.name in references or p.kind == "learned"]
    rest = [p.name for p in ordered if p.name not in first]
    kept = [*first, *rest][:_PROFILES]
    return [policy for policy in ordered if policy.name in kept]
