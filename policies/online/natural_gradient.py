"""Natural policy gradient without a Fisher matrix: steps of fixed size in choice probabilities.

    g     policy gradient, mean over decisions, as in `reinforce`
    F     Fisher matrix: the second derivative of KL(pi_now || pi), mean over decisions
    F v   derivative of (derivative of KL) . v, at the cost of two gradients (Pearlmutter)
    s     (F + damping) s = g, by conjugate gradients
    step  sqrt(2 max_kl / s'(F + damping)s) * s, halved until KL <= max_kl and the gain is positive

F + damping is positive definite, so the number under the root is positive unless g is zero. (A
report that built F itself ran out of memory and found negative numbers there.) F and the line
search use few decisions (`fisher_decisions`, evenly spaced); g uses all.

Sources: Kakade, "A Natural Policy Gradient", NeurIPS 2001; Pearlmutter, "Fast exact multiplication
by the Hessian", 1994; Schulman et al., "Trust Region Policy Optimization", ICML 2015, appendix C.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights
from hindcast.policies.online.choices import PolicyBatch, log_softmax, policy_gain
from hindcast.policies.online.problem import Problem, Sampling, make_scorer
from hindcast.policies.online.reinforce import episode_metrics
from hindcast.policies.training.learner import Info, Learner

_HALVINGS = 10
_SOLVED = 1e-10  # squared residual at which the solver stops, relative to the first one


@dataclass(frozen=True)
class Config:
    """Settings of `natural_gradient`.

    Attributes:
        network: Settings of the candidate scorer.
        sampling: Episodes of an iteration.
        max_kl: Size of a step, mean KL divergence over decisions; above 0.
        damping: Number added to the diagonal of F, above 0.
        cg_steps: Steps of conjugate gradients, at least 1.
        fisher_decisions: Approximate number of decisions for F and the line search, at least 1.
    """

    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), quadratic=False)
    )
    sampling: Sampling = field(
        default_factory=lambda: Sampling(trajectories=20, windows=10, stay=1, baseline="time")
    )
    max_kl: float = number(0.01, "above 0")
    damping: float = number(1e-3, "above 0")
    cg_steps: int = number(10, "at least 1")
    fisher_decisions: int = number(2048, "at least 1")

    def __post_init__(self) -> None:
        check_ranges(self)


def learner(
    problem: Problem,
    config: Config,
    network: Network,
    weights: Weights | None,
    device: torch.device,
) -> Learner:
    """Return a run from these weights, or from random ones; a step is an iteration."""
    rng = generator(problem.seed, "online weights")
    scorer = make_scorer(network, weights, rng, device)

    def step(iteration: int) -> Info:
        drawn = problem.draw(problem.acting(network, scorer.weights()), iteration, config.sampling)
        decisions = sum(len(trajectory.advantage) for trajectory in drawn)
        every = max(1, decisions // config.fisher_decisions)
        gradient = policy_gradient(
            scorer, problem.policy_batches(drawn, network, device), decisions
        )
        few = [a for a in problem.policy_batches(drawn, network, device, every) if len(a)]
        change = natural_step(scorer, gradient, few, config)
        metrics = episode_metrics(problem, [trajectory.trajectory for trajectory in drawn])
        return {**metrics, "gradient_norm": gradient.norm(), **change}

    return problem.learner(network, scorer.weights, {"scorer": scorer}, {}, rng, step)


def policy_gradient(
    scorer: CandidateScorer, pieces: Iterable[PolicyBatch], decisions: int
) -> Tensor:
    """Return the gradient of the mean gain per decision, as one vector."""
    parameters = list(scorer.parameters())
    total = torch.zeros_like(parameters_to_vector(parameters))
    for batch in pieces:
        gain = policy_gain(log_softmax(scorer, batch), batch) / decisions
        total += _flat(torch.autograd.grad(gain, parameters))
    return total


def fisher(
    scorer: CandidateScorer, pieces: Sequence[PolicyBatch], damping: float
) -> Callable[[Tensor], Tensor]:
    """Return the function v -> (F + damping) v at the scorer's weights, over these decisions."""
    parameters = list(scorer.parameters())
    decisions = sum(map(len, pieces))
    slopes = []
    for batch in pieces:
        log_pi = log_softmax(scorer, batch)
        now = log_pi.detach()
        divergence = (now.exp() * (now - log_pi)).sum() / decisions
        slope = torch.autograd.grad(divergence, parameters, create_graph=True)
        slopes.append(_flat(slope))

    def multiply(vector: Tensor) -> Tensor:
        total = damping * vector
        for slope in slopes:
            total = total + _flat(
                torch.autograd.grad(slope @ vector, parameters, retain_graph=True)
            )
        return total

    return multiply


def conjugate_gradients(multiply: Callable[[Tensor], Tensor], right: Tensor, steps: int) -> Tensor:
    """Solve multiply(x) = right for a positive definite `multiply`, in at most `steps` steps."""
    x = torch.zeros_like(right)
    residual, direction = right.clone(), right.clone()
    size = residual @ residual
    enough = _SOLVED * size
    for _ in range(steps):
        if size <= enough:
            break
        product = multiply(direction)
        length = size / (direction @ product)
        x = x + length * direction
        residual = residual - length * product
        before, size = size, residual @ residual
        direction = residual + size / before * direction
    return x


def natural_step(
    scorer: CandidateScorer, gradient: Tensor, pieces: Sequence[PolicyBatch], config: Config
) -> Mapping[str, Tensor]:
    """Move the scorer; return KL divergence and share of the full step, 0 if none helped."""
    unchanged = {"kl": torch.tensor(0.0), "step_share": torch.tensor(0.0)}
    if not pieces or not bool(gradient.norm() > 0.0):
        return unchanged
    multiply = fisher(scorer, pieces, config.damping)
    direction = conjugate_gradients(multiply, gradient, config.cg_steps)
    curvature = direction @ multiply(direction)
    full = torch.sqrt(2.0 * config.max_kl / curvature) * direction
    parameters = list(scorer.parameters())
    start = parameters_to_vector(parameters).detach().clone()
    with torch.no_grad():
        before = [log_softmax(scorer, batch) for batch in pieces]
        share = 1.0
        for _ in range(_HALVINGS):
            vector_to_parameters(start + share * full, parameters)
            divergence, gain = _change(scorer, pieces, before)
            if bool(divergence <= config.max_kl) and bool(gain > 0.0):
                return {"kl": divergence, "step_share": torch.tensor(share)}
            share /= 2.0
        vector_to_parameters(start, parameters)
    return unchanged


def _change(
    scorer: CandidateScorer, pieces: Sequence[PolicyBatch], before: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return mean KL(before || now) and the mean importance-weighted gain in advantage."""
    decisions = sum(map(len, pieces))
    divergence, gain = torch.zeros(()), torch.zeros(())
    for batch, old in zip(pieces, before, strict=True):
        now = log_softmax(scorer, batch)
        divergence = divergence + (old.exp() * (old - now)).sum().cpu() / decisions
        ratio = (now - old).index_select(0, batch.chosen).exp()
        gain = gain + (batch.advantage @ (ratio - 1.0)).cpu() / decisions
    return divergence, gain


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])
