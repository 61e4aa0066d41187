"""Learner of agents that fit the outcomes of episodes on the weights that each of them drew.

    design          of the drawn weights, (E, P): a constant first, then what the surface is made of
    coefficients    ridge regression of the outcomes on the design, (P,)

The two agents differ in the policy that the weights belong to, in the design, and in how the
maximum of the surface is found: hindcast.policies.offline.regression.response_surface and
hindcast.policies.offline.regression.response_surface.

Source: Box & Wilson, "On the Experimental Attainment of Optimum Conditions", JRSS B 1951; weights
per episode as in Sehnke et al., "Parameter-exploring policy gradients", Neural Networks 2010.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hindcast.policies.networks import AnyNetwork
from hindcast.policies.networks.settings import Weights
from hindcast.policies.training.learner import Info, Learner, nothing_to_validate

Array = NDArray[np.float64]
Observations = tuple[Array, Array]  # design (E, P), outcomes (E,)


class _State(nn.Module):
    """Buffer with the coefficients of the surface, (P,)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.surface: torch.Tensor
        self.register_buffer("surface", torch.zeros(size, dtype=torch.float64))


def surface_learner(
    network: AnyNetwork,
    train: Observations,
    validation: Observations | None,
    ridge: float,
    weights: Callable[[Array], Weights],
    seed: int,
) -> Learner:
    """Return the learner whose only step is the regression.

    `weights` returns the weights of the network at the maximum of a surface with these
    coefficients.
    """
    state = _State(train[0].shape[1])

    def step(_number: int) -> Info:
        state.surface.copy_(torch.from_numpy(fit_surface(*train, ridge)))
        r2 = explained(state.surface.numpy(), *train)
        return {"loss": torch.tensor(1.0 - r2), "r2": torch.tensor(r2)}

    validate = nothing_to_validate
    if validation is not None and len(validation[1]):
        held_out = validation

        def validate() -> Mapping[str, float]:
            """Return R2 and 1 - R2 of the surface on validation episodes."""
            r2 = explained(state.surface.numpy(), *held_out)
            return {"validation_loss": 1.0 - r2, "validation_r2": r2}

    return Learner(
        network=network,
        weights=lambda: weights(state.surface.numpy()),
        modules={"state": state},
        optimisers={},
        rng=np.random.default_rng(seed),
        step=step,
        validate=validate,
        most_steps=1,
    )


def fit_surface(design: Array, y: Array, ridge: float) -> Array:
    """Return the coefficients (P,) of the ridge regression; the first has no penalty."""
    penalty = ridge * np.eye(design.shape[1])
    penalty[0, 0] = 0.0
    return np.asarray(np.linalg.solve(design.T @ design + penalty, design.T @ y), np.float64)


def explained(surface: Array, design: Array, y: Array) -> float:
    """Return R2 of the surface; 0 if all outcomes are equal."""
    spread = float(((y - y.mean()) ** 2).sum())
    return 1.0 - float(((y - design @ surface) ** 2).sum()) / spread if spread else 0.0
