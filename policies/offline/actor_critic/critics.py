"""Critics that train a policy and are not needed to act, with their targets and losses.

A critic scores every candidate as the policy does, with its own network. The value of a state is a
network of all its feasible candidates,

    V(s) = g(mean_c f(s, c), max_c f(s, c))        c over the feasible candidates of s

so neither depends on padding or on the order of candidates.
"""

import copy
import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from hindcast.policies.networks.candidate_scorer import FILL, CandidateScorer, pool
from hindcast.policies.networks.settings import Network, NetworkSettings
from hindcast.policies.training.minibatches import Minibatch, Observations

_SMALLEST = 1e-8
_WIDTH = 32  # of a state's value if the network has no hidden layer to copy the width from


class StateValue(nn.Module):
    """V(s) (B,), or several numbers (B, Q), of observations; deep also if `network` is linear.

    It reads the inputs that `network` reads. For an observation without candidates it is a
    constant.
    """

    def __init__(self, network: Network, rng: np.random.Generator, outputs: int = 1) -> None:
        super().__init__()
        settings = network.settings
        width = max(2, settings.hidden[0] if settings.hidden else _WIDTH)
        shape = NetworkSettings(
            (), settings.activation, settings.quadratic, settings.context, image=settings.image
        )
        self.encoder = CandidateScorer(
            dataclasses.replace(network, settings=shape, outputs=width), rng
        )
        self.hidden, self.hidden_bias = _layer(width, 2 * width, rng)
        self.last, self.last_bias = _layer(outputs, width, rng)

    def forward(self, seen: Observations) -> Tensor:
        """Return the values of these observations."""
        row = seen.mask.view(-1).nonzero().squeeze(1) // seen.mask.shape[1]
        encoded = self.encoder.ragged(seen.candidates, seen.context, row).relu()
        hidden = linear(pool(encoded, row, len(seen.mask)), self.hidden, self.hidden_bias).relu()
        return linear(hidden, self.last, self.last_bias).squeeze(-1)


def _layer(after: int, before: int, rng: np.random.Generator) -> tuple[nn.Parameter, nn.Parameter]:
    """Return weight and bias of a layer, drawn as those of a scorer."""
    bound = 1.0 / math.sqrt(before)
    drawn = [rng.uniform(-bound, bound, shape) for shape in ((after, before), (after,))]
    weight, bias = (nn.Parameter(torch.from_numpy(d.astype(np.float32))) for d in drawn)
    return weight, bias


class Critics(nn.Module):
    """`count` critics of one shape, with targets that follow slowly.

    Targets and policies use the least of several critics. The maximum over candidates would
    otherwise pick errors in its favour (Fujimoto, van Hoof & Meger, "Addressing Function
    Approximation Error in Actor-Critic Methods", ICML 2018).
    """

    def __init__(self, network: Network, rng: np.random.Generator, count: int = 2) -> None:
        super().__init__()
        self.online = nn.ModuleList([CandidateScorer(network, rng) for _ in range(count)])
        self.target = copy.deepcopy(self.online).requires_grad_(requires_grad=False)

    def values(self, seen: Observations) -> Tensor:
        """Return values (count, B, K) of every candidate, FILL where the mask forbids."""
        return _stacked(self.online, seen)

    @torch.no_grad()
    def least(self, seen: Observations) -> Tensor:
        """Return the least of the target critics, (B, K)."""
        return _stacked(self.target, seen).amin(dim=0)

    def logged(self, now: Minibatch) -> Tensor:
        """Return values (count, B) of the logged choices, which costs less than all values."""
        return torch.stack([logged_value(q, now) for q in _scorers(self.online)])

    @torch.no_grad()
    def least_logged(self, now: Minibatch) -> Tensor:
        """Return the least of the target critics' values of the logged choices, (B,)."""
        return torch.stack([logged_value(q, now) for q in _scorers(self.target)]).amin(dim=0)

    def follow(self, rate: float) -> None:
        """Move the targets `rate` of the way to the critics."""
        follow(self.target, self.online, rate)


def _stacked(scorers: Iterable[nn.Module], seen: Observations) -> Tensor:
    """Return scores (count, B, K) of several scorers."""
    inputs = seen.candidates, seen.context, seen.mask
    return torch.stack([scorer.packed(*inputs) for scorer in _scorers(scorers)])


def _scorers(modules: Iterable[nn.Module]) -> list[CandidateScorer]:
    return [module for module in modules if isinstance(module, CandidateScorer)]


def logged_value(scorer: CandidateScorer, now: Minibatch) -> Tensor:
    """Return scores (B,) of the logged choices.

    Only networks that compare candidates read the other candidates.
    """
    if scorer.kind != "mlp":
        return chosen(scorer.packed(now.candidates, now.context, now.mask), now.choice)
    rows = now.candidates.index_select(0, packed_position(now.mask, now.choice))
    return scorer.ragged(rows, now.context, torch.arange(len(rows), device=rows.device))


def packed_position(mask: Tensor, choice: Tensor) -> Tensor:
    """Return positions of the candidates `choice` (B,) among the rows that mask (B, K) allows."""
    flat = mask.view(-1).cumsum(0)
    at = choice + torch.arange(len(mask), device=mask.device) * mask.shape[1]
    return flat[at] - 1


class DuelingQuantiles(nn.Module):
    """Quantiles of the return: those of the state plus centred ones of each candidate.

        theta(s, c) = v(mean_c f(s, c), max_c f(s, c)) + W (f(s, c) - mean_c f(s, c))

    One network f serves both (Wang et al., "Dueling Network Architectures for Deep Reinforcement
    Learning", ICML 2016). The mean over the quantiles is as linear in f as the quantiles, so the
    values of all candidates cost no more than with a single number each.
    """

    def __init__(self, network: Network, rng: np.random.Generator, quantiles: int) -> None:
        super().__init__()
        settings = network.settings
        width = max(2, settings.hidden[-1] if settings.hidden else _WIDTH)
        shape = dataclasses.replace(settings, hidden=settings.hidden or (width,))
        self.encoder = CandidateScorer(
            dataclasses.replace(network, settings=shape, outputs=width), rng
        )
        self.hidden, self.hidden_bias = _layer(width, 2 * width, rng)
        self.state, self.state_bias = _layer(quantiles, width, rng)
        self.advantage, _ = _layer(quantiles, width, rng)

    def forward(self, seen: Observations, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return values (B, K) and quantiles (B, N) of a policy's return.

        Values are FILL where the mask forbids. share (B, K) is the policy's probability of each
        candidate, 1 for a single one. Quantiles are averaged one by one, so their mean is that of
        the mixture, whose spread is wider. For an observation without candidates they are a
        constant.
        """
        allowed = seen.mask.view(-1).nonzero().squeeze(1)
        row = allowed // seen.mask.shape[1]
        encoded = self.encoder.ragged(seen.candidates, seen.context, row).relu()
        pooled = pool(encoded, row, len(seen.mask))
        hidden = linear(pooled, self.hidden, self.hidden_bias).relu()
        state = linear(hidden, self.state, self.state_bias)
        centre = pooled[:, : encoded.shape[1]]
        mean = self.advantage.mean(dim=0)
        base = state.mean(dim=1) - centre @ mean
        flat = encoded.new_full((seen.mask.numel(),), FILL)
        values = flat.index_copy(0, allowed, encoded @ mean + base.index_select(0, row))
        share_f = share.view(-1).index_select(0, allowed).unsqueeze(1) * encoded
        size = torch.bincount(row, minlength=len(seen.mask))
        mixed = torch.segment_reduce(share_f, "sum", lengths=size, axis=0, unsafe=True) - centre
        return values.view(seen.mask.shape), state + linear(mixed, self.advantage)


@torch.no_grad()
def follow(target: nn.Module, online: nn.Module, rate: float) -> None:
    """Move each weight of `target` `rate` of the way to that of `online`; a rate of 1 copies."""
    moved: list[Tensor] = list(target.parameters())
    torch._foreach_lerp_(moved, list(online.parameters()), rate)


def chosen(values: Tensor, choice: Tensor) -> Tensor:
    """Return values (..., B) of the logged choices (B,) among values (..., B, K)."""
    at = choice.expand(values.shape[:-1]).unsqueeze(-1)
    return values.gather(-1, at).squeeze(-1)


def masked_expectation(log_pi: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (B,) of values (B, K) under log-probabilities (B, K); 0 for an empty mask.

    Masked entries, FILL or others, never enter a product.
    """
    return torch.where(mask, log_pi.exp() * values, 0.0).sum(dim=-1)


def masked_log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return log-probabilities (B, K) over the candidates that the mask allows; 0 at the others.

    With 0 instead of about FILL, products with masked entries are 0 and have the gradient 0.
    """
    return torch.where(mask, torch.log_softmax(scores, dim=-1), 0.0)


def policy_value(policy: CandidateScorer, seen: Observations, values: Tensor) -> Tensor:
    """Return the mean (B,) of values (B, K) under the policy; 0 if there are no candidates."""
    scores = policy.packed(seen.candidates, seen.context, seen.mask)
    return masked_expectation(masked_log_softmax(scores, seen.mask), values, seen.mask)


def spread_among(values: Tensor, mask: Tensor) -> Tensor:
    """Return the spread of values (B, K) among candidates of a decision: one number, above 0."""
    count = mask.sum(dim=1, keepdim=True).clamp(min=1)
    mean = torch.where(mask, values, 0.0).sum(dim=1, keepdim=True) / count
    squares = torch.where(mask, values - mean, 0.0).square().sum()
    return (squares / mask.sum().clamp(min=1)).sqrt().clamp(min=_SMALLEST)


def entropy(log_pi: Tensor, mask: Tensor) -> Tensor:
    """Return the entropy (B,) of log-probabilities (B, K)."""
    return -masked_expectation(log_pi, log_pi, mask)


def conservative(values: Tensor, choice: Tensor) -> Tensor:
    """Return CQL's term (...,): the excess of values (..., B, K) over those of logged choices."""
    return (torch.logsumexp(values, dim=-1) - chosen(values, choice)).mean(dim=-1)


def expectile_loss(error: Tensor, expectile: float) -> Tensor:
    """Return the mean of |expectile - 1[error < 0]| * error^2."""
    weight = torch.where(error < 0.0, 1.0 - expectile, expectile)
    return (weight * error.square()).mean()


def quantile_loss(quantiles: Tensor, target: Tensor, kappa: float) -> Tensor:
    """Return the quantile Huber loss of quantiles (..., B, Q) against samples (B, T) of the return.

    The loss is the mean over samples of the sum over quantiles of |tau - 1[u < 0]| * huber_kappa(u)
    / kappa, as in Dabney et al., "Distributional Reinforcement Learning with Quantile Regression",
    AAAI 2018.
    """
    q = quantiles.shape[-1]
    tau = (torch.arange(q, device=quantiles.device, dtype=quantiles.dtype) + 0.5) / q
    error = target.unsqueeze(-2) - quantiles.unsqueeze(-1)
    size = error.abs()
    huber = torch.where(size <= kappa, 0.5 * error.square(), kappa * (size - 0.5 * kappa)) / kappa
    weight = (tau.unsqueeze(-1) - (error.detach() < 0.0).to(tau.dtype)).abs()
    return (weight * huber).mean(dim=-1).sum(dim=-1).mean()
