"""Compiled scores of one observation, for every loop that plays a candidate scorer."""

from typing import Any

import numpy as np
from numba import types

from hindcast.pipeline.simulation.arrays import EPISODE
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, ROWS, compiled
from hindcast.policies.networks.forward import NETWORK, score_sets
from hindcast.policies.networks.row_table import TABLE, score_alone, score_ruled
from hindcast.policies.networks.rules import RULES, fill_rule_columns, widen


@compiled(
    types.void(
        types.int64, EPISODE, NETWORK, RULES, types.boolean, TABLE, ROWS, INTS, FLOATS, FLOATS
    ),
    forceinline=True,
)
def score_candidates(
    n: Any, episode: Any, network: Any, rules: Any, alone: Any, table: Any,
    wide: Any, able: Any, values: Any, scores: Any,
) -> None:  # fmt: skip
    """Fill scores[:n] for the last observation of an episode, which has n candidates.

    The network reads the columns of `rules`. `alone` says whether it scores every candidate on its
    own, see `hindcast.policies.networks.row_table.looks_alone`. In that case, the scores of
    infeasible candidates are left as they are. `wide`, `able` and `values` are the buffers of
    `hindcast.policies.networks.rules.rule_buffers`.
    """
    context, candidates, feasible = episode.context, episode.candidates, episode.feasible
    shown, allowed = scores[:n], feasible[:n]
    ruled = len(rules) > 0
    if alone and ruled:
        many = fill_rule_columns(rules, context, candidates[:n], allowed, shown, wide, able, values)
        score_ruled(candidates, wide, able[:many], network, table, shown)
    elif alone:
        score_alone(candidates, allowed, network, table, shown)
    else:
        rows = candidates
        if ruled:
            widen(rules, context, candidates[:n], allowed, shown, wide, able, values)
            rows = wide
        moment = context.reshape((1, len(context)))
        picture = episode.image.reshape((1, len(episode.image)))
        span = np.empty(2, np.int64)
        span[0], span[1] = 0, n
        score_sets(moment, rows[:n], allowed, picture, span, network, shown)
