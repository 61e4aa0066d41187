"""Advantage regression: the first choice by advantages fitted with the log's own propensities.

    score(c) = theta . phi(c)         theta of `policies.offline.regression.advantages`, by round

A step is a round, solved in closed form over all decisions of the log. It has no random draws and
no step size to tune. The agent compares a choice with the alternatives of the behaviour at the same
decision, where `trajectory_preference` compares whole episodes. It is better if a choice shows in
the rewards of the next few dozen decisions, and worse if one outcome comes at the end of thousands.
Behaviours must explore, or there is no advantage to fit.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.candidate_scorer import fit_network
from hindcast.policies.networks.features import fit_map
from hindcast.policies.networks.settings import NetworkSettings, Weights
from hindcast.policies.offline.regression.advantages import (
    AdvantageSettings,
    Maps,
    Solution,
    explained,
    fit_advantages,
)
from hindcast.policies.training.episode_stream import Logs, log_of_decisions
from hindcast.policies.training.learner import Info, Learner, Task, nothing_to_validate
from hindcast.policies.training.returns import best_behaviours, of_behaviours


@dataclass(frozen=True)
class Config(AdvantageSettings):
    """Settings of advantage regression, in addition to those of the advantages.

    Attributes:
        network: Features phi and the scorer: a linear network, with or without `quadratic`.
    """

    network: NetworkSettings = field(default_factory=NetworkSettings)


class _State(nn.Module):
    """The state between rounds: theta (E,) of this round and of the one before, v, R2."""

    def __init__(self, size: int, baseline: int) -> None:
        super().__init__()
        self.theta: Tensor
        self.previous: Tensor
        self.v: Tensor
        self.r2: Tensor
        for name, length in (("theta", size), ("previous", size), ("v", baseline), ("r2", 1)):
            self.register_buffer(name, torch.zeros(length, dtype=torch.float64))


def logs_of(decisions: Decisions, validation: Decisions | None, logs: Logs | None) -> Logs:
    """Return the given logs, or else those in memory; validation only if its episodes are whole."""
    if logs is not None:
        return logs
    held_out = None
    if validation is not None and len(validation):
        with contextlib.suppress(DatasetError):
            held_out = log_of_decisions(validation)
    return Logs(log_of_decisions(decisions), held_out)


def fit_maps(decisions: Decisions, spec: Spec, logs: Logs, phi: NetworkSettings) -> Maps:
    """Return the feature maps of advantages, standardised on the sample."""
    return Maps(
        candidates=fit_network(decisions, spec, phi).candidates,
        context=fit_map(
            spec.context, spec.learned_context, quadratic=False, rows=decisions.context
        ),
        longest=int(logs.train.episodes["steps"].to_numpy().max()),
    )


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`.

    Raises RecipeError for a network with hidden layers.
    """
    shape = config.network
    if shape.hidden or shape.context or shape.image or shape.kind != "mlp":
        raise RecipeError(
            "advantage_regression: network has hidden layers, context or an image; expected a "
            "linear score of the candidate, with or without quadratic"
        )
    logs = logs_of(task.decisions, task.validation, task.logs)
    train, held_out = logs.train, logs.validation
    network = fit_network(task.decisions, task.spec, shape)
    maps = fit_maps(task.decisions, task.spec, logs, shape)
    state = _State(maps.candidates.size, maps.context.size + 3)
    names = best_behaviours(train.episodes, config.share)
    is_best = of_behaviours(train.episodes, names)

    def before() -> np.ndarray | None:
        """Return theta of the round before, or None in the first round."""
        return state.previous.numpy() if bool(state.previous.any()) else None

    def step(_number: int) -> Info:
        state.previous.copy_(state.theta)
        solution = fit_advantages(train, is_best, maps, config, before())
        for name, value in (("theta", solution.theta), ("v", solution.v), ("r2", [solution.r2])):
            getattr(state, name).copy_(torch.as_tensor(value))
        return {"loss": torch.tensor(1.0 - solution.r2), "r2": torch.tensor(solution.r2)}

    def weights() -> Weights:
        w = state.theta.numpy().astype(np.float32)
        return {"layer0.weight": w[None], "layer0.bias": np.zeros(1, np.float32)}

    validate = nothing_to_validate
    if held_out is not None:
        validation = held_out
        is_best_held_out = of_behaviours(validation.episodes, names)

        def validate() -> Mapping[str, float]:
            """Return R2 and 1 - R2 of advantages on validation episodes of the same behaviours."""
            now = Solution(state.theta.numpy(), state.v.numpy(), 0.0, 0.0)
            r2 = explained(validation, is_best_held_out, maps, config, now, before())
            return {"validation_loss": 1.0 - r2, "validation_r2": r2}

    return Learner(
        network=network,
        weights=weights,
        modules={"state": state},
        optimisers={},
        rng=np.random.default_rng(task.seed),
        step=step,
        validate=validate,
        most_steps=config.rounds,
    )
