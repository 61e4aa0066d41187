"""Sentences about data that the numbers of a summary do not cover, and about suspect values."""

from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.evaluation.summary.pairing import Pairing, Setting
from hindcast.pipeline.evaluation.until import decision
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.statistics.intervals import Array, skewness_of

# Fewer than the intervals were measured with, see docs/protocol.md.
FEW_SEEDS: Final = 5
FEW_WINDOWS: Final = 10
# Of differences that grow with a lognormal score, see docs/protocol.md.
SKEWED: Final = 1.5
_MANY_WINDOWS: Final = 100


def data_left_out(setting: Setting, strongest: str | None, bound: Array | None) -> list[str]:
    """Return sentences about data that the numbers do not cover, and about suspect values.

    Args:
        setting: The setting.
        strongest: The strongest simple policy, if there is one.
        bound: Bound on the headline metric of each common window, (windows,), or None.
    """
    headline, found = setting.headline, []
    if headline.left_out:
        total = len(headline.windows) + len(headline.left_out)
        who = ", ".join(f"{name} lacks {count}" for name, count in headline.incomplete)
        found.append(
            f"{len(headline.left_out)} of {total} windows are left out, because not every policy "
            f"was run on them with all of its seeds ({who})."
        )
    scored = set(setting.scores.filter(pl.col("metric") == headline.metric.name)["policy"])
    found += [
        f"{name} is listed but has no value of {headline.metric.name}."
        for name in setting.entries
        if name not in scored
    ]
    missing = [name for name in setting.references if name not in scored]
    missing = [name for name in missing if name not in headline.by_name]
    found += [f"{name} is named as a reference but was not run." for name in missing]
    evaluation = setting.first
    if bound is None and evaluation.bound in {metric.name for metric in evaluation.metrics}:
        found.append(f"The bound {evaluation.bound} is missing on some windows and is not shown.")
    if bound is not None:
        found += _violations_of_bound(headline, bound, evaluation.bound_kind == "lower")
    found += [decision(e.until) for e in setting.evaluations if e.until is not None]
    looks = max((e.looks for e in setting.evaluations if e.looks is not None), default=0)
    if looks:
        found.append(
            f"{count_of(looks, 'other agent')} had been scored on these windows before, by the "
            "ledger of the machine. Of several agents, the best looks better there than it is."
        )
    few = [p for p in headline.policies if p.trained and 1 < len(p.runs) < FEW_SEEDS]
    if few:
        who = ", ".join(f"{policy.name} ({len(policy.runs)})" for policy in few)
        found.append(
            f"There are fewer than {FEW_SEEDS} training seeds of {who}. How often intervals over "
            "so few seeds hold the truth was not measured."
        )
    if len(headline.windows) < FEW_WINDOWS:
        found.append(
            f"Intervals are over {count_of(len(headline.windows), 'window')} alone. How often "
            f"intervals over fewer than {FEW_WINDOWS} windows hold the truth was not measured."
        )
    found += _skewed(headline, strongest)
    return found + [
        f"{metric.name} is not shown: no window has a value of it for every policy."
        for metric in setting.metrics
        if metric.name not in setting.pairings
    ]


def _skewed(headline: Pairing, strongest: str | None) -> tuple[str, ...]:
    """Return a sentence about differences whose intervals hold the truth less often; or none."""
    reference = headline.by_name.get(strongest or "")
    if reference is None or not FEW_WINDOWS <= len(headline.windows) < _MANY_WINDOWS:
        return ()
    found = {
        p.name: skewness_of(p.window_means - reference.window_means) for p in headline.policies
    }
    who = [f"{name} ({value:+.1f})" for name, value in found.items() if abs(value) >= SKEWED]
    if not who:
        return ()
    told = (
        f"The differences from {strongest} are skewed over windows: {', '.join(who)}. Where "
        "differences grow with a skewed score, simulated intervals of 10 and 30 windows held the "
        "truth in 90 and 92 % instead of 95 %, and in 82 and 86 % where the ratio of two policies "
        "scatters as much."
    )
    return (told,)


def _violations_of_bound(headline: Pairing, bound: Array, lower: bool) -> list[str]:
    """Return a sentence for every policy that is better than a bound allows in some window."""
    slack = 1e-6 * np.abs(bound)
    sentences = []
    for policy in headline.policies:
        excess = bound - policy.values if lower else policy.values - bound
        count = int((excess > slack).any(axis=0).sum())
        if count:
            side = "below the lower" if lower else "above the upper"
            sentences.append(
                f"{policy.name} is {side} bound on {count_of(count, 'window')}: the bound or the "
                "outcome is wrong there."
            )
    return sentences
