"""Values of a report about one setting: the finding, tables and plots."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np

from hindcast.pipeline.evaluation.anchors import anchor_of_evaluation
from hindcast.pipeline.evaluation.summary.evaluations import Evaluation
from hindcast.pipeline.evaluation.summary.finding import gain
from hindcast.pipeline.evaluation.summary.pairing import PolicyRuns, Setting
from hindcast.pipeline.evaluation.summary.planned import cells, planned
from hindcast.pipeline.evaluation.summary.summarise import SettingSummary
from hindcast.pipeline.pages.numbers import (
    count_of,
    decimals_for,
    decimals_telling,
    with_unit,
    write_interval,
    write_number,
)
from hindcast.pipeline.report.heat_map import heat_map_figure
from hindcast.pipeline.report.multiples import small_multiples
from hindcast.pipeline.report.plots import (
    Profile,
    differences_plot,
    means_plot,
    profile_plot,
    windows_plot,
)
from hindcast.pipeline.report.schedule_figures import figures_of
from hindcast.pipeline.report.tables import (
    main_table,
    metrics_table,
    planned_table,
    policies_table,
    references_table,
    seeds_table,
    windows_table,
)
from hindcast.pipeline.schedules.schedule import Schedule, file_name, read_schedule
from hindcast.pipeline.statistics.intervals import LEVEL_TEXT, Array
from hindcast.pipeline.storage.run_files import JOBS

SLOWDOWN: Final = "mean_bounded_slowdown"  # of `queue`
_PROFILES: Final = 8  # curves of a performance profile; more are hard to read
_SHORTFALLS: Final = ("truncated", "unfinished", "dropped", "rejected")


def setting_part(summary: SettingSummary) -> dict[str, Any]:
    """Return the values of the section about a setting, see report.html.jinja."""
    setting, finding, strongest = summary.setting, summary.finding, summary.strongest
    rows, missed = summary.rows[setting.first.headline], _shortfalls(summary)
    compared, profile = _compared(summary), _profile(summary)
    caveats = [*summary.cautions, *(c for each in setting.evaluations for c in each.caveats)]
    texts = {
        "caveats": list(dict.fromkeys(caveat.text for caveat in caveats)),
        "left_out": list(_left_out(summary, missed)),
        "tiles": list(_tiles(summary)),
    }
    loads, schedules = _loads(setting, compared), _schedules(setting, compared)
    comparisons, anchor = cells(planned(setting)), anchor_of_evaluation(setting.first)
    windows, policies = windows_table(summary), policies_table(setting)
    tables = (
        planned_table(setting, comparisons),
        references_table(summary),
        windows,
        metrics_table(summary),
        seeds_table(summary),
    )
    main, by_policy = main_table(summary, anchor, missed), small_multiples(summary)
    drawn = setting.first.bound if rows[0]["bound"] is not None else None
    return texts | {
        "finding": finding,
        "strongest": strongest,
        "main": main,
        "tables": [table for table in tables if table is not None],
        "folded": windows if by_policy else None,
        "policies": policies,
        "means": means_plot(rows, strongest, drawn),
        "differences": None if strongest is None else differences_plot(rows, strongest),
        "by_window": finding.learned and windows_plot(finding.learned, setting.headline),
        "profile": profile,
        "profile_plot": profile and profile_plot(profile),
        "by_policy": by_policy,
        "loads": loads and heat_map_figure(*loads),
        "schedules": list(figures_of(*schedules)) if schedules else [],
    }


def _shortfalls(summary: SettingSummary) -> dict[str, dict[str, float]]:
    """Return work that a mean hides, such as rejected jobs: metric -> policy -> total."""
    found = {}
    for metric, pairing in summary.setting.pairings.items():
        if metric.startswith(_SHORTFALLS) and metric != summary.setting.first.headline:
            totals = {p.name: float(p.window_means.sum()) for p in pairing.policies}
            if any(totals.values()):
                found[metric] = totals
    return found


def _left_out(summary: SettingSummary, missed: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield sentences about data that the numbers do not cover, and the evaluations' notes."""
    yield from summary.left_out
    for metric, totals in missed.items():
        counts = ", ".join(f"{name} {total:g}" for name, total in totals.items() if total)
        yield (
            f"{metric}, summed over windows and averaged over seeds: {counts}. The means above "
            "include these windows in the state in which they ended."
        )
    yield from dict.fromkeys(note for e in summary.setting.evaluations for note in e.notes)


def _tiles(summary: SettingSummary) -> Iterator[tuple[str, str, str]]:
    """Yield the four numbers behind the finding: a title, the number and what it is of."""
    finding, row = summary.finding, summary.finding.learned
    if row is None or finding.baseline is None:
        return
    rows = summary.rows[row["metric"]]
    baseline = next(other for other in rows if other["policy"] == finding.baseline)
    decimals = decimals_for(other["mean"] for other in rows)
    learned = "Best learned policy" if finding.verdict != "win" else "Learned policy"
    for title, found in ((learned, row), ("Strongest simple policy", baseline)):
        number = with_unit(write_number(found["mean"], decimals), found["unit"])
        yield title, number, found["policy"]
    value, low, high = gain(row)
    digits = decimals_telling((value, low, high), decimals_for([value], digits=2))
    share = f" ({100 * value / abs(baseline['mean']):+.1f} %)" if baseline["mean"] else ""
    interval = (
        f"{LEVEL_TEXT} interval {write_interval(low, high, digits, signed=True)}"
        if low is not None
        else "no interval from one window"
    )
    number = with_unit(write_number(value, digits, signed=True), row["unit"])
    yield "Gain, paired", number + share, interval
    if row["bound"] is not None and (gap := abs(baseline["mean"] - row["bound"])) > 0:
        room = with_unit(write_number(gap, decimals), row["unit"])
        text = (
            f"of {room} between {finding.baseline} and the {summary.setting.first.bound_kind} bound"
        )
        yield "Room to the bound closed", f"{100 * value / gap:.0f} %", text


def _compared(summary: SettingSummary) -> list[str]:
    """Return the policies that stand beside each other in pictures, the present one first.

    They are the strongest simple policy and the best learned one. Without a learned policy, they
    are what was recorded, the first reference that is a rule or the second best, and the best.
    """
    finding, kinds = summary.finding, {p.name: p.kind for p in summary.setting.headline.ranked}
    if finding.learned is not None and finding.baseline is not None:
        first = [finding.baseline, finding.learned["policy"]]
    else:
        others = dict(islice(kinds.items(), 1, None))
        recorded = [name for name, kind in others.items() if kind == "recorded"]
        references = [name for name in summary.references if others.get(name) == "heuristic"]
        first = [*recorded, *references, *others][:1]
    return list(dict.fromkeys([*first, *kinds]))


def _loads(
    setting: Setting, compared: Sequence[str]
) -> tuple[Array, dict[str, Array], str, str] | None:
    """Return what `heat_map_figure` draws: loads and slowdowns; None where loads are not known."""
    loads = {w: load for e in setting.evaluations for w, load in e.loads.items()}
    pairing = setting.pairings.get(SLOWDOWN)
    if not loads or pairing is None:
        return None
    policies = [pairing.by_name[name] for name in compared if name in pairing.by_name][:2]
    load = np.array([loads.get(window, np.nan) for window in pairing.windows])
    seeds = "; seeds are averaged" if any(len(p.values) > 1 for p in policies) else ""
    what = (
        f"A window is one of those that the page compares on{seeds}. A job arrives at its "
        "submission, or at its eligibility where the recipe says so."
    )
    slowdowns = {policy.name: policy.window_means for policy in policies}
    return load, slowdowns, f"loads {setting.label}", what


def _schedules(setting: Setting, compared: Sequence[str]) -> tuple[list[Schedule], str, str] | None:
    """Return what `figures_of` draws: schedules of two policies that lie beside the scores."""
    windows = setting.headline.windows
    for evaluation in setting.evaluations:
        found = _read(evaluation, setting, compared)
        if (first := next(found, None)) is not None:
            window, count = first.facts["window"], count_of(len(windows), "window")
            others = (each for each in found if each.facts["window"] == window)
            caution = f"This is 1 of {count} and has no interval." * (len(windows) > 1)
            if window not in windows:
                caution = (
                    f"Window {window} is none of the {count} of the scores, and has no interval."
                )
            return [first, *islice(others, 1)], f"window {window}", caution
    return None


def _read(evaluation: Evaluation, setting: Setting, policies: Sequence[str]) -> Iterator[Schedule]:
    """Yield a schedule of every policy that has one of the evaluation's recipe.

    Of the training seeds of an agent, it is the first one.
    """
    if not (evaluation.folder / JOBS).is_dir():
        return
    for policy in policies:
        seeds = [entry.name for entry in setting.entries.values() if entry.group == policy]
        for name in dict.fromkeys([policy, *seeds]):
            path = evaluation.folder / JOBS / f"{file_name(name)}.parquet"
            schedule = read_schedule(path) if path.is_file() else None
            # Names that differ in a character such as "/" share a file.
            if (
                schedule
                and schedule.facts["policy"] == name
                and schedule.facts["source"].get("digest") == evaluation.digest
            ):
                yield schedule
                break


def _profile(summary: SettingSummary) -> Profile | None:
    """Return ratios to the bound, or to the best policy of each window, as a profile.

    There is none if a value or bound has a sign that makes ratios meaningless.
    """
    headline, bound, name = summary.setting.headline, summary.bound, summary.setting.first.bound
    better = headline.metric.better
    if better == "neither" or len(headline.policies) < 2:
        return None
    every = np.stack([policy.window_means for policy in headline.policies])
    if bound is None or name is None:
        bound = every.min(axis=0) if better == "lower" else every.max(axis=0)
        name = "the best policy of the window"
    if (bound <= 0).any() or (every < 0).any():
        return None
    ratios = {policy.name: policy.values / bound for policy in _profiled(summary)}
    return Profile(ratios, better, headline.metric.name, name, len(every) - len(ratios))


def _profiled(summary: SettingSummary) -> list[PolicyRuns]:
    """Return the policies for the profile, best first: learned and references, then the rest."""
    ordered = summary.setting.headline.ranked
    first = [p.name for p in ordered if p.name in summary.references or p.kind == "learned"]
    rest = [p.name for p in ordered if p.name not in first]
    kept = [*first, *rest][:_PROFILES]
    return [policy for policy in ordered if policy.name in kept]
