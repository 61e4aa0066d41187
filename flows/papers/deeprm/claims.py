"""Claims of DeepRM and its reproduction."""

from itertools import pairwise
from typing import Any, Final, TypeAlias

from hindcast.flows.papers.cells import difference, runs
from hindcast.flows.papers.claims import NOT_APPLICABLE, difference_claim, order_claim
from hindcast.flows.papers.deeprm.commands import (
    CLAIMED_RATES,
    IMAGE_ITERATIONS,
    NATURAL_ITERATIONS,
    PAPER_RATE,
    RATES,
    RECIPE_RATE,
    REPORT_JOBS,
    few,
    seeds_of,
)
from hindcast.flows.papers.deeprm.files import (
    AGENT,
    COLUMNS,
    COMPLETION,
    DRAWING,
    FIGURE_3,
    FIGURE_4,
    HOLD,
    IMAGE,
    NATURAL,
    NETWORK,
    OBJECTIVES_PLACE,
    PACKER,
    RETURN,
    SJF,
    SLOWDOWN,
    UNITS,
    UTILISATION,
    Measured,
    name_of,
    over_seeds,
    size_text,
    tenths,
    trained_text,
)
from hindcast.pipeline.evaluation.summary.pairing import PolicyRuns
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.statistics.intervals import Interval, difference_cells, estimate

Rows: TypeAlias = list[dict[str, Any]]

LOAD_PER_RATE: Final = 1.845  # work per job over the capacity, with the sizes of DeepRM
# Objective -> metric, and 1 if more of it is better
_OF_OBJECTIVE: Final = {"completion": (COMPLETION, -1), "utilisation": (UTILISATION, 1)}


def _between(first: PolicyRuns, second: PolicyRuns) -> Interval:
    """Return first - second of two evaluations on the same windows, with an interval."""
    cells = difference_cells(first.values, second.values, first.trained, second.trained)
    return estimate(cells).interval()


def _gap(
    name: str, item: str, text: str, unit: str, sign: int, measured: Interval, differs: str
) -> dict[str, Any]:
    """Return the claim that a difference has a sign; the papers print no size."""
    row = difference_claim(name, item, text, unit, float(sign), measured, differs)
    return row | {"published": None, "size": NOT_APPLICABLE}


def claims(measured: Measured) -> Rows:
    """Return the claims of both papers."""
    return [
        *_on_slowdown(measured), *_on_training(measured), *_on_other_settings(measured),
        *_on_objectives(measured),
    ]  # fmt: skip


def _on_slowdown(measured: Measured) -> Rows:
    at, tested = measured.paper, size_text(measured, PAPER_RATE)
    agent, sizes = name_of(AGENT), "DeepRM's sizes, not the report's."
    order = [difference(at, SJF, AGENT), difference(at, PACKER, SJF)]
    beyond = "hold_8, a rule of one line, is not among the papers' heuristics."
    least, most = (100 * LOAD_PER_RATE * rate for rate in (RATES[0], RATES[-1]))
    sweep = [
        difference(scores, rule, AGENT)
        for scores in measured.scores.values()
        for rule in (SJF, PACKER)
    ]
    return [
        order_claim(
            "order of Fig. 4", FIGURE_4, f"{agent} < {SJF} < {PACKER} at a load of 74 %", order,
            f"{sizes} {tested} {NETWORK}",
        ),
        *(
            _gap(
                f"{agent} against {SJF}, rate {rate}", FIGURE_4,
                f"{agent} less {SJF} in slowdown, rate {rate}", "1", -1,
                difference(measured.scores[rate], AGENT, SJF),
                f"{sizes} {size_text(measured, rate)}",
            )
            for rate in CLAIMED_RATES
        ),
        order_claim(
            "load sweep", "Mao et al., loads of 10 to 190 %",
            f"{agent} below {SJF} and {PACKER} at loads from {least:.0f} to {most:.0f} %", sweep,
            f"The abstract of Mao et al. says comparable. {trained_text(measured)}",
        ),
        *(
            _gap(
                f"{agent} against {HOLD}, rate {rate}", "abstract of the report",
                f"better than heuristics: {agent} less {HOLD} in slowdown, rate {rate}", "1", -1,
                difference(measured.scores[rate], AGENT, HOLD),
                f"{beyond} {size_text(measured, rate)}",
            )
            for rate in CLAIMED_RATES
        ),
    ]  # fmt: skip


def _on_training(measured: Measured) -> Rows:
    trained, agent = size_text(measured, PAPER_RATE), name_of(AGENT)
    slowdown, reward = (tenths(measured.curve[metric]) for metric in (SLOWDOWN, RETURN))
    falls = [over_seeds(a - b) for a, b in pairwise(slowdown.T)]
    over = "Drawn choices on train windows; the interval is over seeds."
    at, setting = measured.recipe, measured.setting
    seeds = count_of(len(seeds_of(setting)), "seed")
    natural = f"{NATURAL_ITERATIONS[setting.quick]} iterations, {seeds}."
    return [
        _gap(
            "slowdown falls in training", FIGURE_3,
            f"{agent}, last tenth of the iterations less first, slowdown", "1", -1,
            over_seeds(slowdown[:, -1] - slowdown[:, 0]), f"{over} {trained}",
        ),
        _gap(
            "reward rises in training", FIGURE_3,
            f"{agent}, last tenth of the iterations less first, reward", "1", 1,
            over_seeds(reward[:, -1] - reward[:, 0]), f"{over} {trained}",
        ),
        order_claim(
            "slowdown falls in every tenth", FIGURE_3,
            f"{agent}: slowdown falls from each tenth of the iterations to the next", falls, over,
        ),
        _gap(
            "natural gradient", OBJECTIVES_PLACE,
            f"the natural gradient does not converge: {name_of(NATURAL)} less {SJF} in slowdown is "
            "above 0", "1", 1, difference(at, NATURAL, SJF),
            "Fisher-vector products with conjugate gradients and a line search; the report "
            f"inverts an estimate of the Fisher matrix, which did not fit in memory. {natural}",
        ),
    ]  # fmt: skip


def _on_other_settings(measured: Measured) -> Rows:
    iterations = IMAGE_ITERATIONS[measured.setting.quick]
    greedy = (
        f"20 units over the image, as in the report, at rate {RECIPE_RATE}; "
        f"{iterations} iterations, one seed. A greedy choice can wait for ever, so choices are "
        "drawn."
    )
    seeds = count_of(len(few(measured.setting)), "seed")
    sizes = f"{REPORT_JOBS} jobs that wait from the start, on unseen job sets; {seeds}."
    return [
        _gap(
            "the papers' network", FIGURE_4, f"{IMAGE} less {SJF} in slowdown", "1", -1,
            difference(measured.image, DRAWING, SJF), greedy,
        ),
        _gap(
            f"the papers' network against {HOLD}", "abstract of the report",
            f"better than heuristics: {IMAGE} less {HOLD} in slowdown", "1", -1,
            difference(measured.image, DRAWING, HOLD), greedy,
        ),
        _gap(
            "report's sizes", FIGURE_4,
            f"{name_of(AGENT)} less {SJF} in slowdown, at the report's sizes", "1", -1,
            difference(measured.report, AGENT, SJF), sizes,
        ),
    ]  # fmt: skip


def _on_objectives(measured: Measured) -> Rows:
    """Return the claims that a reward of another objective serves that objective."""
    rows = []
    seeds = count_of(len(few(measured.setting)), "seed")
    for objective, (metric, sign) in _OF_OBJECTIVE.items():
        unit, column = UNITS[metric], COLUMNS[metric]
        own = measured.objective(objective, metric)
        other = measured.objective("slowdown", metric)
        agent = f"{name_of(AGENT)} for {objective}"
        differs = f"Rate {PAPER_RATE}, {seeds}."
        if objective == "utilisation":
            differs += " Without a discount this reward is the same for all who finish all jobs."
        rows += [
            _gap(
                f"{objective}, against the agent for slowdown", OBJECTIVES_PLACE,
                f"{agent} less {name_of(AGENT)} for slowdown in {column}", unit, sign,
                _between(runs(own, AGENT), runs(other, AGENT)), differs,
            ),
            _gap(
                f"{objective}, against {SJF}", OBJECTIVES_PLACE,
                f"{agent} less {SJF} in {column}", unit, sign, difference(own, AGENT, SJF), differs,
            ),
        ]  # fmt: skip
    return rows
