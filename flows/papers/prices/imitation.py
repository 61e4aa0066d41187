"""Imitation before play for learned prices: CMA-ES of the agreement with the logged choices.

    fitness    mean over a minibatch of decisions of the logged probability of the jobs that the
               knapsack would still start in this slot, or of the close if it would start none

A dozen weights of an exact knapsack have no gradient and need none. The search is that of
hindcast.policies.online.evolution, started at zero, with a fitness that needs no simulator. All
individuals of a generation are evaluated on the same minibatch, and each generation draws another
one.

The order in which the jobs of a slot are started has no effect, so the fitness ignores it: at every
decision, the set of jobs still to be started has to be right. A set that is too small lacks the job
that the log starts; one that is too large is not empty when the log closes the slot. The fitness
stays below 1 because the log explores, and because of ties: values cannot reproduce a rule that
takes the first of two equal sets.

`RIDGE` times the squared weights is subtracted from the fitness. It keeps a sigmoid that is nearly
0 or 1 at all logged decisions from being driven so far that play could not change it any more.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from numba import types
from numpy.typing import NDArray

from hindcast.flows.papers.prices.network import PricesNetwork, require_observations
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.scenarios.deferrable.features import ROW
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, ROWS, compiled
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.heuristics.prices import WEIGHTS, score_by_prices
from hindcast.policies.online.evolution import Distribution, Vector, as_weights
from hindcast.policies.training.learner import Criterion, Info, Learner, Task
from hindcast.policies.training.minibatches import draw_rows, spaced_rows

RIDGE: Final = 1e-4
GENERATIONS: Final = 100  # maximal number; agreement stopped improving after 40
_INDIVIDUALS: Final = 16
_MINIBATCH: Final = 256
_STEP: Final = 0.5
_VALIDATED: Final = 2048  # decisions

_SETS: Final = types.Array(types.float64, 3, "C")
_MASKS: Final = types.Array(types.boolean, 2, "C")

Agreement = Callable[[NDArray[np.int64]], Callable[[Vector], float]]


def imitator(
    task: Task,
    _config: Any,
    network: PricesNetwork,
    targets: NDArray[np.float32],
    held_out: NDArray[np.float32] | None,
) -> Learner:
    """Return the learner of an imitation before play, see hindcast.policies.online.imitation.

    The decisions of the task have all K candidates of their observations. `targets` (D, K) and
    `held_out` are the logged distributions of task.decisions and task.validation. A step is a
    generation.
    """
    rng = generator(task.seed, "imitation")
    drawn_from = Distribution(np.zeros(WEIGHTS), _STEP, _INDIVIDUALS, diagonal=False)
    agreement = agreement_of(task.decisions, targets, network)
    validated = None
    if task.validation is not None and held_out is not None and len(held_out):
        validated = agreement_of(task.validation, held_out, network)

    def step(_number: int) -> Info:
        rows = draw_rows(len(task.decisions), _MINIBATCH, rng)
        y = drawn_from.draw(_INDIVIDUALS, rng)
        tried = drawn_from.mean.numpy() + float(drawn_from.step) * y
        found = np.array(list(map(agreement(rows), tried)))
        order = np.argsort(RIDGE * (tried**2).sum(axis=1) - found, kind="stable")
        drawn_from.move(y[order[: len(drawn_from.share)]])
        numbers = {"agreement": found.mean(), "best_agreement": found.max()}
        told = {name: torch.tensor(float(value)) for name, value in numbers.items()}
        return {**told, "step": drawn_from.step.clone()}

    def validate() -> Mapping[str, float]:
        if validated is None or held_out is None:
            return {}
        rows = spaced_rows(len(held_out), _VALIDATED)
        return {"validation_agreement": validated(rows)(drawn_from.mean.numpy())}

    return Learner(
        network=network,
        weights=lambda: as_weights(network, drawn_from.mean.numpy()),
        modules={"distribution": drawn_from},
        optimisers={},
        rng=rng,
        step=step,
        validate=validate,
        decays=False,
        most_steps=GENERATIONS,
        criterion=Criterion("validation_agreement"),
    )


def agreement_of(
    decisions: Decisions, targets: NDArray[np.float32], network: PricesNetwork
) -> Agreement:
    """Return a function of rows (B,) that returns the agreement as a function of weights (N,).

    The agreement is the mean probability that `targets` (D, K) give to the knapsack's sets there.
    Raises DatasetError for a value that is out of its range.
    """
    every = decisions.candidates.reshape(-1, decisions.candidates.shape[2])
    require_observations(decisions.context, every, "log")
    closes = decisions.candidates[:, :, ROW.closes] == 1.0
    sizes = closes.argmax(axis=1) + 1  # the close row is the last one

    def at(rows: NDArray[np.int64]) -> Callable[[Vector], float]:
        some = (
            decisions.context[rows].astype(np.float64),
            decisions.candidates[rows].astype(np.float64),
            sizes[rows], decisions.mask[rows], targets[rows].astype(np.float64),
        )  # fmt: skip
        return lambda flat: float(shared(*some, network.parameters(as_weights(network, flat))))

    return at


@compiled(types.float64(ROWS, _SETS, INTS, _MASKS, ROWS, FLOATS))
def shared(context, candidates, sizes, feasible, targets, parameters):  # type: ignore[no-untyped-def]
    """Return the mean probability over B decisions that `targets` give to the knapsack's set.

    The set is the jobs that the knapsack would still start in the slot, in any order, or the close
    if it would start none. context is (B, C). candidates is (B, K, F), of which the first `sizes`
    (B,) are rows of the observation and the last of these is the close row. feasible and targets
    are (B, K).
    """
    total = 0.0
    for b in range(len(context)):
        n = sizes[b]
        scores = np.empty(n)
        score_by_prices(context[b], candidates[b][:n], feasible[b][:n], parameters, scores)
        some = False
        for i in range(n - 1):
            if scores[i] > 0.0:
                some = True
                total += targets[b, i]
        if not some:
            total += targets[b, n - 1]
    return total / len(context)
