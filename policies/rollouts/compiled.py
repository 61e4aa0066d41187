"""Compiled episodes of a network that draws its choices, and their replay for a gradient.

`sample` plays an episode and keeps only choices and rewards. `gather` plays the same choices again
and writes the network's inputs. A batch of long episodes then needs the inputs of only one episode
in memory, the one whose gradient is computed. No Python runs between two decisions, and the GIL is
released.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EPISODE, STEPS, named
from hindcast.pipeline.simulation.functions import OBSERVE_CELL, STEP_CELL
from hindcast.pipeline.simulation.policy import GENERATOR, draw_choice, fill_probabilities
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.features import COLUMNS
from hindcast.policies.networks.forward import NETWORK, NetworkArrays
from hindcast.policies.networks.row_table import SHIFT, TABLE, Table, is_held, put, tag_of
from hindcast.policies.networks.rules import RULES, rule_buffers, widen
from hindcast.policies.networks.scoring import score_candidates

# rows of the array `numbers` that `sample` writes
N_LOG_PROBABILITY: Final = 0
N_REWARD: Final = 1
N_ELAPSED: Final = 2
N_TIME: Final = 3
NUMBERS: Final = 4

# members of the cursor: decisions, candidates and unique rows written; the next decision
C_DECISIONS: Final = 0
C_CANDIDATES: Final = 1
C_ROWS: Final = 2
C_NEXT: Final = 3


class DeciderArrays(NamedTuple):
    """A network that decides, or if `guided` a rule with these parameters instead."""

    guided: bool
    parameters: NDArray[np.float64]
    alone: bool  # whether a score depends only on its row; if not, the table is unused
    network: NetworkArrays
    table: Table


class LookedArrays(NamedTuple):
    """Buffers for the arrays of a `hindcast.policies.rollouts.trajectories.NetworkInputs`."""

    rows: NDArray[np.float64]
    row_of: NDArray[np.int64]
    context: NDArray[np.float64]
    image: NDArray[np.uint8]
    row_numbers: NDArray[np.int64]  # `index` of NetworkInputs
    starts: NDArray[np.int64]
    chosen: NDArray[np.int64]
    decision: NDArray[np.int64]


DECIDER: Final = named(DeciderArrays, types.boolean, k.FLOATS, types.boolean, NETWORK, TABLE)
LOOKED: Final = named(
    LookedArrays, k.ROWS, k.INTS, k.ROWS, types.Array(types.uint8, 2, "C"), *[k.INTS] * 4
)


@k.compiled(
    types.int64(
        OBSERVE_CELL, STEP_CELL, EPISODE, STEPS, DECIDER, RULES,
        types.float64, types.float64, GENERATOR, k.INTS, k.ROWS, types.int64,
    ))  # fmt: skip
def sample(
    observe: Any, step: Any, episode: Any, arrays: Any, decider: Any, rules: Any,
    temperature: Any, epsilon: Any, rng: Any, choices: Any, numbers: Any, first: Any,
) -> Any:  # fmt: skip
    """Play from decision `first` until the episode is over or the arrays are full.

    The decider's network, which reads the columns of `rules`, draws from softmax(scores /
    temperature), or takes the best candidate at temperature 0; with probability `epsilon` the
    choice is uniform. Returns 4 * decisions + status, where the status is RUNNING if the arrays are
    full; or INFEASIBLE for a forbidden choice.
    """
    observe, step = observe[0], step[0]
    episode = uncounted(episode)
    ints, floats, context, image, candidates, feasible = episode
    scores, probabilities, step_outputs, totals = uncounted(arrays)
    _guided, _parameters, alone, network, table = uncounted(decider)
    wide, able, values = rule_buffers(rules, candidates)
    at, status = first, k.RUNNING
    while status == k.RUNNING and at < len(choices):
        numbers[N_TIME, at] = floats[k.TIME]
        n = observe(ints, floats, context, image, candidates, feasible)
        shown, allowed = scores[:n], feasible[:n]
        score_candidates(n, episode, network, rules, alone, table, wide, able, values, scores)
        choice = draw_choice(shown, allowed, temperature, epsilon, rng, probabilities)
        if choice < 0:
            return k.INFEASIBLE
        status = step(ints, floats, choice, step_outputs)
        if status == k.INFEASIBLE:
            return k.INFEASIBLE
        choices[at] = choice
        if epsilon > 0.0:  # draw_choice leaves epsilon out, and fills none for a uniform draw
            fill_probabilities(shown, allowed, temperature, epsilon, probabilities)
        drawn = temperature > 0.0 or epsilon > 0.0
        chosen = np.log(probabilities[choice]) if drawn else 0.0
        numbers[N_LOG_PROBABILITY, at] = chosen
        numbers[N_REWARD, at] = step_outputs[k.REWARD]
        numbers[N_ELAPSED, at] = step_outputs[k.ELAPSED]
        for term in range(len(step_outputs)):
            totals[term] += step_outputs[term]
        at += 1
    return 4 * at + status


@k.compiled(
    types.int64(
        OBSERVE_CELL, STEP_CELL, EPISODE, STEPS, types.boolean,
        COLUMNS, TABLE, RULES, k.INTS, types.int64, types.int64, LOOKED, k.INTS,
    ))  # fmt: skip
def gather(
    observe: Any, step: Any, episode: Any, arrays: Any, alone: Any, columns: Any, table: Any,
    rules: Any, choices: Any, every: Any, offset: Any, looked: Any, cursor: Any,
) -> Any:  # fmt: skip
    """Play the choices again and write decisions offset, offset + every, ... to `looked`.

    Returns 0 if the next decision might not fit into `looked`, 1 when all choices are made, and
    INFEASIBLE for a forbidden choice. The layout is that of
    `hindcast.policies.rollouts.trajectories.NetworkInputs`.
    """
    observe, step = observe[0], step[0]
    ints, floats, context, image, candidates, feasible = uncounted(episode)
    rows, row_of, contexts, images, index, starts, chosen, which = uncounted(looked)
    wide, able, values = rule_buffers(rules, candidates)
    ruled = len(rules) > 0
    seen = wide if ruled else candidates
    table = uncounted(table)
    keys, tags, held, cells = table.keys, table.tags, table.held, seen.view(np.uint64)
    capacity = len(feasible)
    t, m, u = cursor[C_DECISIONS], cursor[C_CANDIDATES], cursor[C_ROWS]
    at, code = cursor[C_NEXT], 1
    while at < len(choices):
        if t == len(chosen) or m + capacity > len(index) or u + capacity > len(rows):
            code = 0
            break
        n = observe(ints, floats, context, image, candidates, feasible)
        choice = choices[at]
        if at % every == offset:
            if ruled:
                widen(
                    rules, context, candidates[:n], feasible[:n], arrays.scores[:n],
                    wide, able, values,
                )  # fmt: skip
            starts[t] = m
            which[t] = at
            for c in range(contexts.shape[1]):
                contexts[t, c] = context[c]
            for p in range(images.shape[1]):
                images[t, p] = image[p]
            for i in range(n):
                if not feasible[i]:
                    continue
                if i == choice:
                    chosen[t] = m
                tag = tag_of(cells, i, columns) if alone else np.uint64(0)
                place = np.int64(tag >> SHIFT)
                if not alone or not is_held(keys, tags, held, cells, i, tag, columns):
                    if alone:
                        put(keys, tags, cells, i, tag, columns)
                    held[place] = u
                    for f in range(rows.shape[1]):
                        rows[u, f] = seen[i, f]
                    row_of[u] = t
                    u += 1
                index[m] = held[place]
                m += 1
            t += 1
        if step(ints, floats, choice, arrays.step_outputs) == k.INFEASIBLE:
            return k.INFEASIBLE
        at += 1
    starts[t] = m
    cursor[C_DECISIONS], cursor[C_CANDIDATES], cursor[C_ROWS] = t, m, u
    cursor[C_NEXT] = at
    return code
