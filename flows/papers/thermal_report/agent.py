"""Agent of the 2018 data-centre report: DQN over all six servers at once, for `thermal`.

    y     = r + gamma * max over the feasible i of Q_target(s')_i
    loss  = mean (y - Q(s)_choice)^2 + l1 * |theta|_1 + l2 * |theta|_2^2

with the network of `hindcast.flows.papers.thermal_report.network`, RMSProp, uniform minibatches
of logged transitions, and a target network that is replaced every `target_update_interval` steps.
Source: L. Dong, "Solution on Data Center Job Scheduling Problem", 2018, section III.

Differences from the report, whose code does not learn: the report's target network is never read,
its Q and its target are masked by different actions, its regulariser is never optimised, its
features are misaligned, its learning rate is .3, and its states contain the decision. Here inputs
are standardised, rewards are scaled to values of order one, and the value after the end of an
episode is 0 (the report has no end).
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, linear

from hindcast.flows.papers.thermal_report.network import (
    LEAK,
    NUMBER,
    ServersNetwork,
    ServersSettings,
    servers_network,
)
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.settings.ranges import number
from hindcast.policies.networks.candidate_scorer import FILL, WeightedModule
from hindcast.policies.training.learner import Info, Learner, Task, descend, nothing_to_validate
from hindcast.policies.training.minibatches import draw_rows, spaced_rows
from hindcast.policies.training.values import reward_scale

_VALIDATED: Final = 1024  # transitions


@dataclass(frozen=True)
class Config:
    """Settings of the agent; the defaults are the report's where known, except the learning rate.

    Attributes:
        minibatch: Transitions per gradient step.
        discount: Discount factor gamma.
        l1: Weight of the L1 regulariser.
        l2: Weight of the L2 regulariser.
        learning_rate: Step size of RMSProp.
        target_update_interval: Gradient steps between two copies of Q to Q_target.
        reward_scale: Factor of the rewards; 0 means one over the mean size of a return.
    """

    minibatch: int = number(256, "from 1 to 1,000,000")
    discount: float = number(0.8, "from 0 to 1")
    l1: float = number(1e-6, "at least 0")
    l2: float = number(1e-5, "at least 0")
    learning_rate: float = number(1e-3, "above 0")
    target_update_interval: int = number(100, "at least 1")
    reward_scale: float = number(0.0, "at least 0")


class ServersScorer(WeightedModule):
    """Torch version of the network: servers (B, n, 7) and job (B, 5) -> values (B, n)."""

    def __init__(self, network: ServersNetwork, rng: np.random.Generator) -> None:
        super().__init__()
        for name, shape in network.shapes.items():
            inputs = network.shapes[name.replace("bias", "weight")][1]
            start = rng.uniform(-1.0, 1.0, shape) / np.sqrt(inputs)
            self.register_parameter(
                name.replace(".", "_"), nn.Parameter(torch.from_numpy(start.astype(np.float32)))
            )

    def forward(self, servers: Tensor, job: Tensor) -> Tensor:
        """Return the values of all servers, including infeasible ones."""
        seen = self._layer(self._layer(servers, "phi0"), "phi1").flatten(1)
        hidden = self._layer(self._layer(torch.cat([seen, job], dim=1), "joint0"), "joint1")
        return linear(hidden, self.joint2_weight, self.joint2_bias)  # type: ignore[arg-type]

    def _layer(self, x: Tensor, name: str) -> Tensor:
        weight, bias = getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias")
        return leaky_relu(linear(x, weight, bias), LEAK)


@dataclass(frozen=True)
class _Log:
    """Transitions on a device, with servers in the order of their numbers."""

    servers: Tensor
    job: Tensor
    choice: Tensor
    reward: Tensor
    going_on: Tensor
    next_servers: Tensor
    next_job: Tensor


def learner(task: Task, config: Config) -> Learner:
    """Return the learner of one training run, see `hindcast.policies.training.learner`.

    Raises DatasetError if decisions do not all show the same servers.
    """
    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    number = [f.name for f in task.spec.candidates].index(NUMBER)
    count = int(task.decisions.candidates[..., number].max()) + 1
    shown = task.decisions.candidates[:, :count].reshape(-1, len(task.spec.candidates))
    network = servers_network(
        ServersSettings(count),
        task.spec.context,
        task.spec.candidates,
        (task.decisions.context, shown),
    )
    scale = config.reward_scale or reward_scale(task.decisions, config.discount)
    log = _load(task.decisions, network, number, scale, task.device)
    q = ServersScorer(network, weights_rng).to(task.device)
    target = copy.deepcopy(q).requires_grad_(requires_grad=False)
    optimiser = torch.optim.RMSprop(q.parameters(), lr=config.learning_rate)

    def errors(of: _Log, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return TD errors (B,) and values (B,) of the logged choices."""
        at = torch.from_numpy(rows).to(task.device)
        value = q(of.servers[at], of.job[at]).gather(1, of.choice[at][:, None]).squeeze(1)
        with torch.no_grad():
            following = target(of.next_servers[at], of.next_job[at])
            feasible = of.next_servers[at][..., -1] > 0
            best = following.masked_fill(~feasible, FILL).amax(dim=1)
            y = of.reward[at] + config.discount * of.going_on[at] * best
        return y - value, value

    def step(made: int) -> Info:
        error, value = errors(log, draw_rows(len(task.decisions), config.minibatch, rng))
        loss = (error**2).mean()
        parts = [p.flatten() for p in q.parameters()]
        theta = torch.cat(parts)
        descend(optimiser, loss + config.l1 * theta.abs().sum() + config.l2 * (theta**2).sum())
        if made % config.target_update_interval == 0:
            target.load_state_dict(q.state_dict())
        error, value = error.detach(), value.detach()
        return {"loss": loss.detach(), "td_error": error.abs().mean(), "mean_q": value.mean()}

    validate = nothing_to_validate
    validation = task.validation
    if validation is not None and len(validation) and validation.next_mask is not None:
        held_out = _load(validation, network, number, scale, task.device)
        some = spaced_rows(len(validation), _VALIDATED)

        def validate() -> Mapping[str, float]:
            error, value = errors(held_out, some)
            return {
                "validation_loss": float((error**2).mean()),
                "validation_td_error": float(error.abs().mean()),
                "validation_mean_q": float(value.mean()),
            }

    return Learner(
        network=network,
        weights=q.weights,
        modules={"q": q, "target": target},
        optimisers={"q": optimiser},
        rng=rng,
        step=step,
        validate=validate,
        decays=False,
    )


def _load(
    decisions: Decisions, network: ServersNetwork, number: int, scale: float, device: torch.device
) -> _Log:
    d = decisions
    assert d.next_candidates is not None
    assert d.next_context is not None
    assert d.next_mask is not None
    servers, order = _in_order(network, number, d.candidates, d.mask)
    # A terminal decision has no successor; the placeholder is multiplied by zero.
    after = np.where(d.terminated[:, None, None], d.candidates, d.next_candidates)
    next_servers, _ = _in_order(network, number, after, d.next_mask)
    tensors = (
        servers,
        network.context.expand(d.context),
        (order == d.choice[:, None]).argmax(axis=1),
        (d.reward * scale).astype(np.float32),
        1.0 - d.terminated.astype(np.float32),
        next_servers,
        network.context.expand(d.next_context),
    )
    return _Log(*(torch.from_numpy(t).to(device) for t in tensors))


def _in_order(
    network: ServersNetwork,
    number: int,
    candidates: NDArray[np.float32],
    mask: NDArray[np.bool_],
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return servers (D, n, 7) in the order of their numbers, and their positions (D, n)."""
    n = network.settings.servers
    shown = candidates[:, :n]
    order = shown[..., number].argsort(axis=1, kind="stable")
    numbers = np.take_along_axis(shown[..., number], order, axis=1)
    if shown.shape[1] < n or not (numbers == np.arange(n)).all():
        raise DatasetError(
            f"report_dqn: every decision must show the same {n} servers, numbered from 0"
        )
    ordered = np.take_along_axis(shown, order[..., None], axis=1)
    flags = np.take_along_axis(mask[:, :n], order, axis=1).astype(np.float32)
    rows = network.candidates.expand(ordered.reshape(-1, ordered.shape[2]))
    return np.concatenate([rows.reshape(*order.shape, -1), flags[..., None]], axis=2), order
