"""Imitation before play for learned prices: CMA-ES of what they would start, as the log does.

    fitness    mean over a minibatch of decisions of the logged probability of the jobs that the
               knapsack would still start in this slot, or of the close where it would start none

A dozen weights of an exact knapsack have no gradient and need none: it is the evolution of
policies.online.evolution, from zero, with a fitness that asks no simulator. All individuals of a
generation are judged on one minibatch, those of the next on another.

In which order a slot's jobs are started changes nothing, so it is no part of the fitness: what has
to be right is the set, at every decision of what is left of the slot. A set that is too small lacks
the job that the log starts, one that is too large is there still when the log closes the slot. What
stays below 1 is what the log explores, and ties: a rule that takes the first of two equal sets
cannot be told from its values.

`RIDGE` times the squared weights is taken off. A sigmoid that is as good as 0 or 1 wherever the log
says something is not driven farther, where play could not move it any more.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.dataset.decisions import Decisions
from pipeline.scenarios.deferrable.features import ROW
from pipeline.simulation.seeds import generator
from policies.online.evolution import Distribution, Vector, as_weights
from policies.papers.prices.forward import shared
from policies.papers.prices.network import WEIGHTS, PricesNetwork
from policies.training.learner import Criterion, Info, Learner, Task
from policies.training.minibatches import draw_rows, spaced_rows

RIDGE: Final = 1e-4
GENERATIONS: Final = 100  # no more are used; agreement stood still after 40 of them
_INDIVIDUALS: Final = 16
_MINIBATCH: Final = 256
_STEP: Final = 0.5
_VALIDATED: Final = 2048  # decisions

Agreement = Callable[[NDArray[np.int64]], Callable[[Vector], float]]


def imitator(
    task: Task,
    _config: Any,
    network: PricesNetwork,
    shown: NDArray[np.float32],
    held_out: NDArray[np.float32] | None,
) -> Learner:
    """The learner of an imitation before play, see policies.online.imitation.

    Decisions are whole observations; a step is a generation.
    """
    rng = generator(task.seed, "imitation")
    drawn_from = Distribution(np.zeros(WEIGHTS), _STEP, _INDIVIDUALS, diagonal=False)
    agreement = agreement_of(task.decisions, shown, network)
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
    decisions: Decisions, shown: NDArray[np.float32], network: PricesNetwork
) -> Agreement:
    """Decisions at rows (B,) -> weights (N,) -> how far they agree with `shown` (D, K) there."""
    closes = decisions.candidates[:, :, ROW.closes] == 1.0
    sizes = closes.argmax(axis=1) + 1  # the close row is the last one

    def at(rows: NDArray[np.int64]) -> Callable[[Vector], float]:
        some = (
            decisions.context[rows].astype(np.float64),
            decisions.candidates[rows].astype(np.float64),
            sizes[rows], decisions.mask[rows], shown[rows].astype(np.float64),
        )  # fmt: skip
        return lambda flat: float(shared(*some, network.parameters(as_weights(network, flat))))

    return at
