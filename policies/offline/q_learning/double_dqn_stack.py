"""Masked double DQN of A agents as one program: the same updates as d3rlpy's, for all at once.

    y    = r + gamma * Q_target(s', argmax_c Q(s', c))
    loss = mean huber(Q(s, choice) - y), then a step of Adam; Q_target is copied at intervals

The agents have networks of one shape and minibatches of one size. They may differ in their seed,
and so in their log, and in every setting that is a number. The loss of one agent is written for one
agent, and `torch.func.vmap` runs it over stacked weights (A, P). All tensors keep their shapes and
places, so a step can be a CUDA graph; a run of one agent is a stack of one. Each agent draws its
minibatches from its own generator, so it learns what it would learn by itself, to rounding.

Weights of one agent lie in one vector. Adam is written out, because torch's has one step size for
all entries of a tensor. The defaults of its settings are those of d3rlpy.

Source: van Hasselt, Guez & Silver, "Deep Reinforcement Learning with Double Q-Learning", AAAI 2016;
Kingma & Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.policies.networks.candidate_scorer import FILL, CandidateScorer, fit_network
from hindcast.policies.networks.settings import Network, Weights
from hindcast.policies.offline.resident import Padded, captured, memory, padded, padded_bytes, send
from hindcast.policies.training.learner import Info, Learner, Task, nothing_to_validate
from hindcast.policies.training.minibatches import draw_rows, outcomes, spaced_rows
from hindcast.policies.training.values import ValueUnit, value_unit

METRICS: Final = ("loss", "td_error", "mean_q")
_BETAS: Final = (0.9, 0.999)
_EPSILON: Final = 1e-8
_VALIDATED: Final = 1024  # transitions

Score = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # weights, candidates, context, mask


def stackable(config: Any) -> bool:
    """Return True if the network of these settings scores each candidate by itself, densely."""
    settings = config.network
    return settings.kind == "mlp" and not settings.image and not settings.places


def alike(config: Any) -> tuple[Any, ...]:
    """Return the settings that all agents of a stack must share."""
    return config.network, config.minibatch


def fits(task: Task, config: Any) -> bool:
    """Return True if the transitions of a run fit into the memory of its device."""
    network = fit_network(task.decisions, task.spec, config.network)
    return padded_bytes(task.decisions, network) <= memory(task.device)


class _AgentState(nn.Module):
    """The part of the state that belongs to one agent, in the memory of the stack.

    Attributes:
        weights: (P,), of Q.
        target: (P,), of Q_target.
        mean: (P,), Adam's mean of gradients.
        square: (P,), Adam's mean of their squares.
        steps: (), float64, number of steps taken.
    """

    def __init__(self, stacked: Mapping[str, Tensor], index: int) -> None:
        super().__init__()
        for name, value in stacked.items():
            self.register_buffer(name, value[index])  # a view


def scorer(network: Network) -> Score:
    """Return a function of one agent's weights (P,) and B padded observations to scores (B, K)."""
    shapes = list(network.shapes.values())
    sizes = [math.prod(shape) for shape in shapes]
    activation = torch.relu if network.settings.activation == "relu" else torch.tanh
    split = network.candidates.size

    def score(weights: Tensor, candidates: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """Return scores (B, K) of candidates (B, K, E) in contexts (B, G); FILL for masked ones."""
        layers = [p.view(s) for p, s in zip(torch.split(weights, sizes), shapes, strict=True)]
        hidden = nn.functional.linear(candidates, layers[0][:, :split], layers[1])
        if layers[0].shape[1] > split:
            hidden = hidden + nn.functional.linear(context, layers[0][:, split:]).unsqueeze(1)
        for weight, bias in zip(layers[2::2], layers[3::2], strict=True):
            hidden = nn.functional.linear(activation(hidden), weight, bias)
        return torch.where(mask, hidden.squeeze(-1), FILL)

    return score


def loss(
    score: Score, weights: Tensor, target: Tensor, steps: Padded, gain: Tensor, share: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the loss of one agent on B transitions, and METRICS (3,).

    The target of a transition is `gain` (B,) plus `share` (B,) of the value that follows.
    """
    value = _picked(score(weights, steps.candidates, steps.context, steps.mask), steps.choice)
    after = (steps.after_candidates, steps.after_context, steps.after_mask)
    best = score(weights.detach(), *after).argmax(dim=-1)
    y = gain + share * _picked(score(target, *after), best)
    huber = nn.functional.huber_loss(value, y)
    metrics = (huber, (y - value).abs().mean(), value.mean())
    return huber, torch.stack([metric.detach() for metric in metrics])


def _picked(scores: Tensor, choice: Tensor) -> Tensor:
    """Return the scores (B,) at the choices; unlike that of `gather`, its gradient only writes."""
    chosen = torch.arange(scores.shape[-1], device=scores.device) == choice.unsqueeze(-1)
    return torch.where(chosen, scores, 0.0).sum(dim=-1)


def learners(tasks: Sequence[Task], configs: Sequence[Any]) -> list[Learner]:
    """Return the runs of a stack, which take their steps together.

    The first of them that asks for a step takes the step of all. Every run has its own state, which
    can be saved and restored while all are at the same step. Settings and networks are `alike`, the
    device is the same, and `fits` holds for all logs together.
    """
    device = tasks[0].device
    units = [value_unit(t.decisions, t.spec, c) for t, c in zip(tasks, configs, strict=True)]
    logs: dict[int, tuple[Decisions, Network]] = {}
    for t, c in zip(tasks, configs, strict=True):
        if id(t.decisions) not in logs:
            logs[id(t.decisions)] = t.decisions, fit_network(t.decisions, t.spec, c.network)
    networks = [logs[id(t.decisions)][1] for t in tasks]
    rngs = [np.random.default_rng(t.seed) for t in tasks]
    score = scorer(networks[0])
    state = _first_state(networks, tasks, device)
    states = [_AgentState(state, i) for i in range(len(tasks))]
    advance = _program(tasks, configs, units, score, state, padded([*logs.values()], device),
                       _starts([*logs], tasks), rngs)  # fmt: skip
    steps_taken = 0
    metrics: tuple[Tensor, ...] = ()

    def step(agent: int, number: int) -> Info:
        nonlocal steps_taken, metrics
        if number != steps_taken:
            steps_taken, metrics = number, advance()
        return dict(zip(METRICS, metrics[agent * len(METRICS) :], strict=False))

    held_out: dict[tuple[int, int], Padded] = {}
    runs = []
    for i, (t, network, unit) in enumerate(zip(tasks, networks, units, strict=True)):
        runs.append(
            Learner(
                network=network,
                weights=partial(_weights, network, states[i]),
                modules={"stacked": states[i]},
                optimisers={},
                rng=rngs[i],
                step=partial(step, i),
                validate=_validation(t, network, unit, score, states[i], held_out),
                decays=False,
            )
        )
    return runs


def _first_state(
    networks: Sequence[Network], tasks: Sequence[Task], device: torch.device
) -> dict[str, Tensor]:
    """Return the stacked state before the first step, with the weights that d3rlpy would have."""
    initial = [
        np.concatenate([value.ravel() for value in _drawn(network, task.seed).values()])
        for network, task in zip(networks, tasks, strict=True)
    ]
    weights = torch.from_numpy(np.stack(initial)).to(device)
    return {
        "weights": weights,
        "target": weights.clone(),
        "mean": torch.zeros_like(weights),
        "square": torch.zeros_like(weights),
        "steps": torch.zeros(len(tasks), dtype=torch.float64, device=device),
    }


def _drawn(network: Network, seed: int) -> Weights:
    return CandidateScorer(network, np.random.default_rng(seed)).weights()


def _weights(network: Network, state: _AgentState) -> Weights:
    """Return copies of an agent's weights, by checkpoint name."""
    flat, start, weights = state.weights.cpu().numpy(), 0, {}  # type: ignore[operator]
    for name, shape in network.shapes.items():
        weights[name] = flat[start : start + math.prod(shape)].reshape(shape).copy()
        start += math.prod(shape)
    return weights


def _starts(logs: Sequence[int], tasks: Sequence[Task]) -> NDArray[np.int64]:
    """Return the first row (A,) of every agent's log among the joined logs."""
    lengths = {id(t.decisions): len(t.decisions) for t in tasks}
    first = dict(zip(logs, np.cumsum([0, *(lengths[log] for log in logs)]), strict=False))
    return np.array([first[id(t.decisions)] for t in tasks])


def _parts_of_targets(decisions: Decisions, unit: ValueUnit) -> tuple[Tensor, Tensor]:
    """Return the gain and the share of the following value, (D,) each, see `loss`."""
    steps = outcomes(unit.prepare(decisions), torch.device("cpu"))
    return unit.gain(steps), unit.discount ** unit.interval(steps) * unit.remaining(steps)


def _program(
    tasks: Sequence[Task],
    configs: Sequence[Any],
    units: Sequence[ValueUnit],
    score: Score,
    state: Mapping[str, Tensor],
    steps: Padded,
    starts: NDArray[np.int64],
    rngs: Sequence[np.random.Generator],
) -> Callable[[], tuple[Tensor, ...]]:
    """Return a function that takes one step of all agents and returns the METRICS of each in turn.

    Metrics stay on the device.
    """
    device, size = tasks[0].device, configs[0].minibatch
    counts = [len(t.decisions) for t in tasks]
    parts = [_parts_of_targets(t.decisions, u) for t, u in zip(tasks, units, strict=True)]
    gain, share = (torch.cat(column).to(device) for column in zip(*parts, strict=True))

    def column(values: Sequence[float], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype).unsqueeze(1).to(device)

    start = column(starts.tolist(), torch.int64)  # of an agent's log in `steps`
    gain_start = column(np.cumsum([0, *counts[:-1]]).tolist(), torch.int64)  # in `gain`
    rate = column([c.learning_rate for c in configs], torch.float64)
    interval = column([c.target_update_interval for c in configs], torch.float64)
    rows = torch.zeros((len(tasks), size), dtype=torch.int64, device=device)
    metrics = torch.zeros((len(tasks), len(METRICS)), device=device)

    def loss_of_one(
        weights: Tensor, target: Tensor, rows: Tensor, gain: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        return loss(score, weights, target, steps.at(rows), gain, share)

    # On a CPU one agent at a time: its minibatch fits into the cache, and its weights are the same
    # in any stack, bit for bit.
    slope = torch.func.vmap(
        torch.func.grad(loss_of_one, has_aux=True), chunk_size=1 if device.type == "cpu" else None
    )
    weights, target, steps_taken = state["weights"], state["target"], state["steps"]

    def update() -> None:
        """Take the step of the minibatches at `rows`; every tensor is changed in place."""
        rows_of_gain = rows + gain_start
        gradient, curves = slope(
            weights, target, rows + start, gain[rows_of_gain], share[rows_of_gain]
        )
        metrics.copy_(curves)
        steps_taken.add_(1.0)
        _adam(state, gradient, rate)
        due = (steps_taken.unsqueeze(1) - 1.0) % interval == 0.0
        target.copy_(torch.where(due, weights, target))

    run = captured(update, [*state.values(), metrics], device)

    def advance() -> tuple[Tensor, ...]:
        drawn = [draw_rows(n, size, rng) for n, rng in zip(counts, rngs, strict=True)]
        send(np.stack(drawn), rows)
        run()
        return metrics.flatten().clone().unbind()

    return advance


def _adam(state: Mapping[str, Tensor], gradient: Tensor, rate: Tensor) -> None:
    """Take a step of Adam down the gradients (A, P), with the step sizes (A, 1)."""
    steps = state["steps"].unsqueeze(1)
    mean, square = state["mean"], state["square"]
    mean.lerp_(gradient, 1.0 - _BETAS[0])
    square.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1.0 - _BETAS[1])
    size = (rate / (1.0 - _BETAS[0] ** steps)).float()
    root = (1.0 - _BETAS[1] ** steps).sqrt().float()
    state["weights"].addcdiv_(size * mean, square.sqrt() / root + _EPSILON, value=-1.0)


def _validation(
    task: Task,
    network: Network,
    unit: ValueUnit,
    score: Score,
    state: _AgentState,
    held_out: dict[tuple[int, int], Padded],
) -> Callable[[], Mapping[str, float]]:
    """Return the METRICS of one agent on validation transitions, which agents share: `held_out`."""
    decisions = task.validation
    if decisions is None or not len(decisions) or decisions.next_mask is None:
        return nothing_to_validate
    rows = torch.from_numpy(spaced_rows(len(decisions), _VALIDATED))
    key = (id(decisions), id(task.decisions))  # of the decisions, and of the maps that expand them
    if key not in held_out:
        on_cpu = padded([(decisions, network)], torch.device("cpu")).at(rows)
        held_out[key] = Padded(*(v.to(task.device) for v in vars(on_cpu).values()))
    steps = held_out[key]
    gain, share = (part[rows].to(task.device) for part in _parts_of_targets(decisions, unit))

    @torch.no_grad()
    def validate() -> Mapping[str, float]:
        metrics = loss(score, state.weights, state.target, steps, gain, share)[1]  # type: ignore[arg-type]
        return {f"validation_{name}": v for name, v in zip(METRICS, metrics.tolist(), strict=True)}

    return validate
