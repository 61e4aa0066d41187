"""Planned comparisons of an evaluation: agents against the strongest policy that did not learn."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hindcast.pipeline.evaluation.summary.evaluations import NO_BASELINE
from hindcast.pipeline.evaluation.summary.pairing import Setting, read_settings
from hindcast.pipeline.pages.numbers import (
    count_of,
    decimals_for,
    decimals_telling,
    write_interval,
    write_number,
    write_p_value,
)
from hindcast.pipeline.statistics.families import ERROR, detectable, holm
from hindcast.pipeline.statistics.intervals import Interval, difference_cells, estimate


class Comparison(NamedTuple):
    """A planned comparison on the headline outcome.

    Attributes:
        agent: Name of the agent, whose training seeds are pooled.
        baseline: The policy with the best mean of those that did not learn.
        difference: Agent minus baseline, paired, with its interval.
        p: p-value after Holm's adjustment for all comparisons of the plan; NaN from one window.
        detectable: Minimum detectable effect at a power of 80 %.
        verdict: "better", "worse" or "not shown".
    """

    agent: str
    baseline: str
    difference: Interval
    p: float
    detectable: float
    verdict: str


def planned(setting: Setting) -> list[Comparison]:
    """Return the comparisons of a setting's plans; none without a plan or a better direction.

    A planned agent that was not scored counts in Holm's adjustment, as one without a difference.
    """
    pairing = setting.headline
    agents = {name for e in setting.evaluations if e.plan for name in e.plan.agents}
    ranked = () if pairing.metric.better == "neither" else pairing.ranked
    baseline = next((p for p in ranked if p.name not in agents and p.kind not in NO_BASELINE), None)
    compared = [policy for policy in ranked if policy.name in agents]
    if baseline is None or not compared:
        return []
    sign = 1.0 if pairing.metric.better == "higher" else -1.0
    found = [
        estimate(
            difference_cells(p.values, baseline.values, p.trained, baseline.trained),
            pairing.stretches,
        )
        for p in compared
    ]
    left_out = [1.0] * (len(agents) - len(compared))
    adjusted = holm([*(one.p_value for one in found), *left_out])[: len(found)]
    level = min([ERROR, *(e.until.level for e in setting.evaluations if e.until)])
    return [
        Comparison(
            policy.name, baseline.name, one.interval(), float(p), detectable(one),
            "not shown" if not p < level else "better" if sign * one.value > 0.0 else "worse",
        )
        for policy, one, p in zip(compared, found, adjusted, strict=True)
    ]  # fmt: skip


def planned_lines(folder: Path) -> list[str]:
    """Return the planned comparisons of an evaluation folder as lines of text."""
    (setting,) = read_settings([folder])
    rows = cells(planned(setting))
    if not rows:
        return []
    head = f"planned: {count_of(len(rows), 'comparison')}, one family, p after Holm's adjustment"
    return [head, *(
        f"  {agent} less {baseline}: {difference}, p {p}, {verdict} (MDE {mde})"
        for agent, baseline, difference, p, mde, verdict in rows
    )]  # fmt: skip


def cells(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """Return comparisons as rows of text: agent, baseline, difference, p, MDE, verdict."""
    rows = []
    for one in comparisons:
        numbers = [one.difference.value, one.difference.low, one.difference.high]
        digits = decimals_telling(numbers, decimals_for([one.difference.value], digits=2))
        interval = write_interval(one.difference.low, one.difference.high, digits, signed=True)
        rows.append([
            one.agent, one.baseline,
            f"{write_number(one.difference.value, digits, signed=True)} ({interval})",
            write_p_value(one.p), write_number(one.detectable, digits), one.verdict,
        ])  # fmt: skip
    return rows
