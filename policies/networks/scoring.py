"""Compiled scores of one observation, for every loop that plays a rule or a candidate scorer."""

from typing import Final, NamedTuple

import numpy as np

from hindcast.pipeline.simulation.arrays import EpisodeArrays
from hindcast.pipeline.simulation.functions import ScoreCell
from hindcast.pipeline.simulation.kernel import Floats, compiled, compiled_type
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.forward import NetworkArrays, score_sets
from hindcast.policies.networks.row_table import Table, score_rows_apart, score_ruled_rows
from hindcast.policies.networks.rules import RuleBuffers, RuleList, fill_rule_columns, widen


class DeciderArrays(NamedTuple):
    """A network that decides, or if `guided` a rule with these parameters instead."""

    guided: bool
    parameters: Floats
    apart: bool  # whether a score depends only on its row; if not, the table is unused
    network: NetworkArrays
    table: Table


DECIDER: Final = compiled_type(DeciderArrays)


@compiled(forceinline=True)
def score_candidates(
    rule: ScoreCell,
    decider: DeciderArrays,
    rules: RuleList,
    n: int,
    episode: EpisodeArrays,
    buffers: RuleBuffers,
    scores: Floats,
) -> None:
    """Fill scores[:n] for the last observation of an episode, which has n candidates.

    A network reads the columns of `rules`. If it scores every row apart, the scores of infeasible
    candidates are left as they are.
    """
    decider, episode, buffers, scores = uncounted((decider, episode, buffers, scores))
    context, candidates, feasible = episode.context, episode.candidates, episode.feasible
    shown, allowed = scores[:n], feasible[:n]
    network, table, has_rule_columns = decider.network, decider.table, len(rules) > 0
    if decider.guided:
        rule[0](context, candidates, feasible, decider.parameters, shown)
    elif decider.apart and has_rule_columns:
        count = fill_rule_columns(rules, context, candidates[:n], allowed, shown, buffers)
        score_ruled_rows(candidates, buffers.widened, buffers.rows[:count], network, table, shown)
    elif decider.apart:
        score_rows_apart(candidates, allowed, network, table, shown)
    else:
        rows = candidates
        if has_rule_columns:
            widen(rules, context, candidates[:n], allowed, shown, buffers)
            rows = buffers.widened
        moment = context.reshape((1, len(context)))
        picture = episode.image.reshape((1, len(episode.image)))
        span = np.empty(2, np.int64)
        span[0], span[1] = 0, n
        score_sets(moment, rows[:n], allowed, picture, span, network, shown)
