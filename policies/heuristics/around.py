"""`around_RULE`: the ranks of a deterministic rule plus a linear priority, drawn once per episode.

    score = STRENGTH * rank + sum over columns of w * t(x)       w, t as in `random_linear`
    rank    share of the other feasible candidates with a lower score of the rule

A log of `random_linear` shows policies of every kind, most of them poor. These episodes stay near a
strong rule, and differ from it and from each other in the same way at every decision, so their
outcomes show in which direction the rule can be improved.

The rules are not listed by name: every deterministic rule over rows has one.
"""

from functools import cache
from typing import Any, Final

import numpy as np

from hindcast.pipeline.simulation.kernel import SCORE, compiled
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.policies.heuristics.linear import draw_weights, linear

PREFIX: Final = "around_"
STRENGTH: Final = 100.0  # so near to the rule that many draws are better than the rule


@cache
def around(rule: Heuristic) -> Heuristic:
    """Return the behaviour around a deterministic rule.

    It is compiled by each process that uses it, in about a second.
    """
    score = rule.score

    @compiled(SCORE, cache=False)
    def drawn(context: Any, candidates: Any, feasible: Any, parameters: Any, scores: Any) -> None:
        linear(context, candidates, feasible, parameters, scores)
        of_rule = np.empty(len(scores))
        score(context, candidates, feasible, parameters[:0], of_rule)
        rows = np.flatnonzero(feasible[: len(scores)])  # buffers may be longer than an observation
        ordered = np.sort(of_rule[rows])
        for i in rows:
            worse = np.searchsorted(ordered, of_rule[i])
            scores[i] += STRENGTH * worse / max(len(rows) - 1, 1)

    return Heuristic(
        f"{PREFIX}{rule.name}", drawn, draw_weights,
        description=f"near {rule.name}, by a linear priority that is drawn once per episode",
        formula=f"{STRENGTH:g} * rank by {rule.name} + the score of random_linear",
        needs=rule.needs,
    )  # fmt: skip
