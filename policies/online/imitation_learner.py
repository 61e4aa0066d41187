"""Imitation by gradient: the learner that all networks with a gradient have in common.

    step        loss of a minibatch of logged decisions, drawn with replacement; Adam
    validate    loss and agreement on evenly spaced validation decisions, the same ones every time

What the loss of some decisions is, a network says itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.dataset.decisions import Decisions
from pipeline.simulation.seeds import generator
from policies.networks import AnyNetwork
from policies.networks.settings import Weights
from policies.training.learner import Criterion, Info, Learner, Task, descend
from policies.training.minibatches import draw_rows, spaced_rows

_LOOK: Final = Criterion("validation_loss", "lower")

Loss = Callable[[NDArray[np.int64]], tuple[Tensor, Info]]  # of decisions at rows (B,)


@dataclass(frozen=True)
class Steps:
    """How it is descended: decisions of a step, its size, and of how many validation is made."""

    minibatch: int
    learning_rate: float
    validated: int = 4096


def cloning(
    task: Task,
    network: AnyNetwork,
    scorer: nn.Module,
    weights: Callable[[], Weights],
    loss_of: Callable[[Decisions, NDArray[np.float32]], Loss],
    shown: NDArray[np.float32],
    held_out: NDArray[np.float32] | None,
    steps: Steps,
) -> Learner:
    """The learner of an imitation by `scorer`, whose `weights` are those of `network`.

    loss_of    decisions and their distributions (D, K) -> the loss of some of them, with
               `agreement` and what else is to be told
    held_out   distributions of task.validation; None without
    """
    rng = generator(task.seed, "imitation")
    optimiser = torch.optim.Adam(scorer.parameters(), lr=steps.learning_rate)
    loss_at = loss_of(task.decisions, shown)
    validated = None
    if task.validation is not None and held_out is not None and len(held_out):
        validated = loss_of(task.validation, held_out)

    def step(_number: int) -> Info:
        loss, info = loss_at(draw_rows(len(task.decisions), steps.minibatch, rng))
        descend(optimiser, loss)
        return {"loss": loss.detach(), **info}

    def validate() -> Mapping[str, float]:
        if validated is None or held_out is None:
            return {}
        with torch.no_grad():
            loss, info = validated(spaced_rows(len(held_out), steps.validated))
        return {"validation_loss": float(loss), "validation_agreement": float(info["agreement"])}

    return Learner(
        network=network,
        weights=weights,
        modules={"scorer": scorer},
        optimisers={"adam": optimiser},
        rng=rng,
        step=step,
        validate=validate,
        criterion=_LOOK,
    )
