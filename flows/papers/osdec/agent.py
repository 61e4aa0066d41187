"""PPO or REINFORCE over scores of a whole slot: the OSDEC family of agents for `deferrable`.

    action      one score per startable job, drawn once per slot from N(mean, deviation); the jobs
                start in order of score until one does not fit
                (hindcast.flows.papers.osdec.slotwise)
    gain        clipped (ppo), or advantage * log-density (reinforce); the density covers the
                scores of the startable jobs
    advantage   generalised advantage estimation over slots (ppo), or return to go minus the mean
                over the window's trajectories (reinforce, sampling.baseline); normalised per batch
    value       mean of (V - target)^2. V is the difference between a return and the return of a
                steady policy, in units of the first batch; the steady part accounts for the
                number of slots left in a finite episode
    auxiliary   mean squared error of four predictions of the next slot, with a separate optimiser

Source: Dong, Zhu, Shan et al. (OSDEC), sections 4.1-4.3, Table 3; Schulman et al., "Proximal
Policy Optimization Algorithms", 2017. Differences from the paper:
- A batch is 16 whole episodes (2,688 slots of the base setting). The paper uses 2,048 slots of 16
  workers. With whole episodes no value is bootstrapped in the middle of an episode.
- Minibatches have 256 slots; the paper uses 64. The paper does not state the number of passes over
  a batch: PPO makes 4 here, REINFORCE one.
- The outputs of the auxiliary module are plain inputs of the policy: the gradient of the policy
  loss does not flow back into the module.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from hindcast.flows.papers.osdec.imitation import imitator
from hindcast.flows.papers.osdec.network import (
    SlotScoresNetwork,
    SlotScoresSettings,
    slot_scores_network,
)
from hindcast.flows.papers.osdec.rollouts import Floats, SlotTraces, play_greedily, play_slots
from hindcast.flows.papers.osdec.slotwise import Slots
from hindcast.flows.papers.osdec.torch_network import SlotNetwork
from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.statistics.returns import returns_to_go
from hindcast.policies.networks.features import fit_map
from hindcast.policies.networks.settings import Weights
from hindcast.policies.online.advantages import advantages, gae
from hindcast.policies.online.ppo import clipped_gain, divergence
from hindcast.policies.online.problem import Problem, Sampling
from hindcast.policies.training.learner import Criterion, Info, Learner

_FITTED_WINDOWS = 16
_VALIDATED = 50


@dataclass(frozen=True)
class Config:
    """Settings of `score_ppo`; the defaults are those of OSDEC.

    Attributes:
        network: Architecture of the policy, the value and the auxiliary module.
        sampling: Trajectories and windows of an iteration. Only reinforce reads `baseline`, for
            which it needs at least 2 trajectories of each window.
        algorithm: "ppo" (clipped gain) or "reinforce".
        epochs: Passes over a batch, at least 1; reinforce always makes one.
        minibatch: Slots per gradient step, at least 1.
        clip: Clipping range of the probability ratio of PPO, above 0.
        lam: Lambda of generalised advantage estimation, 0 to 1.
        learning_rate: Step size of Adam for the policy, above 0.
        value_learning_rate: Step size of Adam for the value, above 0.
        auxiliary_learning_rate: Step size of Adam for the auxiliary module, above 0.
        floor: Share of each step size that remains at the end of the run, 0 to 1.
        value_weight: Weight of the squared error of the value in the loss.
    """

    network: SlotScoresSettings = field(
        default_factory=lambda: SlotScoresSettings(encoder="attention", auxiliary="both")
    )
    sampling: Sampling = field(
        default_factory=lambda: Sampling(
            trajectories=4, windows=4, stay=1, baseline="decision", discount=0.99
        )
    )
    algorithm: Literal["ppo", "reinforce"] = "ppo"
    epochs: int = number(4, "at least 1")
    minibatch: int = number(256, "from 1 to 1,000,000")
    clip: float = number(0.2, "above 0")
    lam: float = number(0.95, "from 0 to 1")
    learning_rate: float = number(1e-4, "above 0")
    value_learning_rate: float = number(2e-4, "above 0")
    auxiliary_learning_rate: float = number(1e-2, "above 0")
    floor: float = number(0.1, "from 0 to 1")
    value_weight: float = number(0.5, "any")

    def __post_init__(self) -> None:
        check_ranges(self)
        alone = self.sampling.trajectories == 1 and self.sampling.baseline != "none"
        if self.algorithm == "reinforce" and alone:
            raise RecipeError(
                "sampling.trajectories is 1, and reinforce compares trajectories of a window: "
                'expected at least 2, or sampling.baseline = "none"'
            )


class Units(nn.Module):
    """Units of the value, measured on the first batch.

    `steady` is the mean reward of a slot. `size` is the standard deviation of returns to go around
    those of a policy that earns `steady` in every slot.
    """

    steady: Tensor
    size: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steady", torch.tensor(0.0, dtype=torch.float64))
        self.register_buffer("size", torch.tensor(0.0, dtype=torch.float64))

    def fit(self, played: SlotTraces, discount: float) -> None:
        """Measure the units on this batch, unless they are already known."""
        if float(self.size) > 0.0:
            return
        self.steady.fill_(float(played.reward.mean()))
        to_go = np.stack([returns_to_go(r, discount) for r in played.reward])
        difference = float((to_go - self.expected(played.left, discount)).std())
        self.size.fill_(difference or 1.0)

    def expected(self, left: Floats, discount: float) -> Floats:
        """Return the discounted return of a steady policy with `left` slots left."""
        slots = left if discount == 1.0 else (1.0 - discount**left) / (1.0 - discount)
        return slots * float(self.steady)


def fit(problem: Problem, settings: SlotScoresSettings) -> SlotScoresNetwork:
    """Return the network, standardised on episodes of train windows played with random scores."""
    plain = slot_scores_network(settings, problem.spec.context, problem.spec.candidates)
    windows = problem.train[:: -(-len(problem.train) // _FITTED_WINDOWS)]
    slots = Slots(problem.spec, [problem.instance_of(w) for w in windows])
    rng = generator(problem.seed, "online features")
    rows, contexts = [], []
    for _ in range(slots.horizon):
        slots.see()
        live = np.arange(slots.rows.shape[1]) < slots.counts.sum(axis=1)[:, None]
        rows.append(slots.rows[live])
        contexts.append(slots.context.copy())
        slots.play(rng.random(slots.rows.shape[:2]))
    spec = problem.spec
    return SlotScoresNetwork(
        settings,
        fit_map(spec.candidates, plain.candidates.columns.tolist(), quadratic=False,
                rows=np.concatenate(rows)),
        fit_map(spec.context, plain.context.columns.tolist(), quadratic=False,
                rows=np.concatenate(contexts)),
    )  # fmt: skip


def learner(
    problem: Problem,
    config: Config,
    network: SlotScoresNetwork,
    weights: Weights | None,
    device: torch.device,
) -> Learner:
    """Return the learner of one run, from these weights or random ones; a step is an iteration."""
    rng = generator(problem.seed, "online weights")
    net = SlotNetwork(network, rng)
    if weights is not None:
        net.set_weights(weights)
    net.to(device)
    groups = net.groups()
    rates = {
        "policy": config.learning_rate,
        "value": config.value_learning_rate,
        "auxiliary": config.auxiliary_learning_rate,
    }
    optimisers = {
        name: torch.optim.Adam(group, lr=rates[name]) for name, group in groups.items() if group
    }
    units = Units()

    def step(iteration: int) -> Info:
        n = config.sampling.trajectories
        windows = problem.windows_of(iteration, config.sampling)
        instances = [problem.instance_of(w) for w in windows for _ in range(n)]
        rngs = [
            generator(problem.seed, "online trajectory", iteration, i)
            for i in range(len(instances))
        ]
        played = play_slots(net, network, problem.spec, instances, rngs, device)
        units.fit(played, config.sampling.discount)
        advantage, target = worth(played, config, units)
        moved = _learn(
            net, optimisers, config, played,
            torch.from_numpy(advantage.astype(np.float32)).to(device),
            torch.from_numpy(target.astype(np.float32)).to(device), rng,
        )  # fmt: skip
        told = problem.summary(played.episodes)
        told["surprise"] = -float(played.log_probability.mean())
        return {**{k: torch.tensor(v) for k, v in told.items()}, **moved}

    def validate() -> Mapping[str, float]:
        if not problem.validation:
            return {}
        windows = problem.validation[:: -(-len(problem.validation) // _VALIDATED)]
        instances = [problem.instance_of(w) for w in windows]
        episodes = play_greedily(net, network, problem.spec, instances, device)
        return {f"validation_{k}": v for k, v in problem.summary(episodes).items()}

    return Learner(
        network=network,
        weights=net.weights,
        modules={"network": net, "units": units},
        optimisers=optimisers,
        rng=rng,
        step=step,
        validate=validate,
        decays=True,
        floor=config.floor,
        criterion=Criterion("validation_return"),
    )


def worth(played: SlotTraces, config: Config, units: Units) -> tuple[Floats, Floats]:
    """Return normalised advantages (E * T,) of the slots, and targets (E * T,) of the value."""
    discount, sampling = config.sampling.discount, config.sampling
    expected = units.expected(played.left, discount)
    value = played.value * float(units.size) + expected
    if config.algorithm == "ppo":
        pairs = zip(played.reward, value, strict=True)
        found = np.stack([gae(r, v, discount, config.lam, 0.0) for r, v in pairs])
        target = found + value
    else:
        n = sampling.trajectories
        time = np.arange(played.reward.shape[1], dtype=np.float64)
        same = [list(played.reward[first : first + n]) for first in range(0, len(played.reward), n)]
        found = np.concatenate(
            [advantages(r, [time] * n, sampling.baseline, discount=discount) for r in same]
        )
        target = np.stack([returns_to_go(r, discount) for r in played.reward])
    deviation = float(found.std())
    normalised = (found - found.mean()) / deviation if deviation > 0.0 else found
    return normalised.ravel(), ((target - expected) / float(units.size)).ravel()


def _learn(
    net: SlotNetwork,
    optimisers: Mapping[str, torch.optim.Optimizer],
    config: Config,
    played: SlotTraces,
    advantage: Tensor,
    target: Tensor,
    rng: np.random.Generator,
) -> dict[str, Tensor]:
    """Make the passes over a batch in minibatches, and return the means of their metrics."""
    metrics: list[dict[str, Tensor]] = []
    count = len(advantage)
    for _ in range(config.epochs if config.algorithm == "ppo" else 1):
        order = rng.permutation(count)
        for first in range(0, count, config.minibatch):
            which = torch.from_numpy(order[first : first + config.minibatch]).to(advantage.device)
            scored = net(played.seen[which])
            scores = played.scores.index_select(0, which)[:, : scored.mean.shape[1]]
            now = scored.log_probability(scores)
            old = played.log_probability.index_select(0, which)
            worth_of = advantage.index_select(0, which)
            gain = (
                clipped_gain(now, old, worth_of, config.clip)
                if config.algorithm == "ppo"
                else worth_of * now
            ).mean()
            error = (scored.value - target.index_select(0, which)).square().mean()
            predicted = _prediction_error(net, played, which)
            loss = config.value_weight * error - gain + predicted
            for optimiser in optimisers.values():
                optimiser.zero_grad()
            loss.backward()
            for optimiser in optimisers.values():
                optimiser.step()
            metrics.append(
                {
                    "value_error": error.detach(),
                    "auxiliary_error": predicted.detach(),
                    "divergence": divergence(now.detach(), old).mean(),
                    "deviation": scored.deviation.detach()[scored.present].mean(),
                    "gain": gain.detach(),
                }
            )
    return {name: torch.stack([m[name] for m in metrics]).mean() for name in metrics[0]}


def _prediction_error(net: SlotNetwork, played: SlotTraces, which: Tensor) -> Tensor:
    """Return the mean squared error of the auxiliary module, or 0 if there is no such module."""
    if net.settings.auxiliary == "none":
        return played.history.new_zeros(())
    target = played.targets.index_select(0, which)
    predicted = net.auxiliary(played.history.index_select(0, which))[1]
    known = ~target.isnan()
    return (predicted - target.nan_to_num()).square()[known].mean()


__all__ = ["Config", "Units", "fit", "imitator", "learner", "worth"]
