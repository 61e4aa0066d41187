"""Compiled replay of an episode that writes the inputs of a network, for its gradient.

An episode keeps only choices and rewards (hindcast.policies.networks.player). `gather` plays the
same choices again and writes the network's inputs. A batch of long episodes then needs the inputs
of only one episode in memory, the one whose gradient is computed.
"""

from typing import Final, NamedTuple

import numpy as np

from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EpisodeArrays, StepArrays
from hindcast.pipeline.simulation.functions import ObserveCell, StepCell
from hindcast.pipeline.simulation.kernel import Images, Ints, Rows
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.row_table import SHIFT, Table, is_held, put, tag_of
from hindcast.policies.networks.rules import RuleList, rule_buffers, widen

# members of InputArrays.cursor: decisions, candidates and unique rows written
C_DECISIONS: Final = 0
C_CANDIDATES: Final = 1
C_ROWS: Final = 2
C_NEXT: Final = 3  # of `gather`: the next decision
C_PLAYED: Final = 3  # of `branch`: decisions of the rollouts


class InputArrays(NamedTuple):
    """Buffers for the arrays of a `hindcast.policies.rollouts.trajectories.NetworkInputs`."""

    rows: Rows
    row_of: Ints
    context: Rows
    image: Images
    row_numbers: Ints  # `index` of NetworkInputs
    starts: Ints
    chosen: Ints
    decision: Ints
    cursor: Ints  # (4,)


class UniqueRows(NamedTuple):
    """The table in which equal rows are found, for a network that scores every row apart."""

    apart: bool  # if not, every row counts as unique
    columns: Ints  # that the network reads
    table: Table


@k.compiled()
def gather(
    observe: ObserveCell,
    step: StepCell,
    rules: RuleList,
    episode: EpisodeArrays,
    arrays: StepArrays,
    unique: UniqueRows,
    choices: Ints,
    every: int,
    offset: int,
    inputs: InputArrays,
) -> int:
    """Play the choices again and write decisions offset, offset + every, ... to `inputs`.

    Returns 0 if the next decision might not fit into `inputs`, 1 when all choices are made, and
    INFEASIBLE for a forbidden choice.
    """
    look, act = observe[0], step[0]
    ints, floats, context, image, candidates, feasible = uncounted(episode)
    scores, _chances, step_outputs, _totals = uncounted(arrays)
    rows, row_of, contexts, images, index, starts, chosen, decision, cursor = uncounted(inputs)
    apart, columns, table = uncounted(unique)
    buffers = rule_buffers(rules, candidates)
    has_rule_columns = len(rules) > 0
    seen = buffers.widened if has_rule_columns else candidates
    keys, tags, held, cells = table.keys, table.tags, table.held, seen.view(np.uint64)
    capacity = len(feasible)
    # Decisions, candidates and unique rows so far, as in NetworkInputs.
    t, m, u = cursor[C_DECISIONS], cursor[C_CANDIDATES], cursor[C_ROWS]
    at, code = cursor[C_NEXT], 1
    while at < len(choices):
        if t == len(chosen) or m + capacity > len(index) or u + capacity > len(rows):
            code = 0
            break
        n = look(ints, floats, context, image, candidates, feasible)
        choice = choices[at]
        if at % every == offset:
            if has_rule_columns:
                widen(rules, context, candidates[:n], feasible[:n], scores[:n], buffers)
            starts[t] = m
            decision[t] = at
            for c in range(contexts.shape[1]):
                contexts[t, c] = context[c]
            for p in range(images.shape[1]):
                images[t, p] = image[p]
            for i in range(n):
                if not feasible[i]:
                    continue
                if i == choice:
                    chosen[t] = m
                tag = tag_of(cells, i, columns) if apart else np.uint64(0)
                place = np.int64(tag >> SHIFT)
                if not apart or not is_held(keys, tags, held, cells, i, tag, columns):
                    if apart:
                        put(keys, tags, cells, i, tag, columns)
                    held[place] = u
                    for f in range(rows.shape[1]):
                        rows[u, f] = seen[i, f]
                    row_of[u] = t
                    u += 1
                index[m] = held[place]
                m += 1
            t += 1
        if act(ints, floats, choice, step_outputs) == k.INFEASIBLE:
            return k.INFEASIBLE
        at += 1
    starts[t] = m
    cursor[C_DECISIONS], cursor[C_CANDIDATES], cursor[C_ROWS] = t, m, u
    cursor[C_NEXT] = at
    return code
