"""The masked candidate scorer in torch: one number per candidate, each row on its own.

    padded   candidates (B, K, E), context (B, G), mask (B, K)           -> (B, K)
    packed   candidates (sum of mask, E), context (B, G), mask (B, K)    -> (B, K)
    ragged   candidates (sum of N, E), context (B, G), row (sum of N,)   -> (sum of N,)

Padded and packed inputs are computed as ragged ones: nothing is spent on rows that the mask forbids
(about half of them in a real log), and nothing can leak from them. A score depends on its own row
and the context of its observation alone, so results do not change with padding, with the order of
the candidates or with how many there are. Inputs are expanded by policies.features; acting without
torch is policies.learned.
"""

import math
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.decisions import Decisions
from pipeline.schema import Spec
from policies.features import fit_map
from policies.learned import Network, NetworkSettings, Weights

# Finite: -inf times a zero of a one-hot vector is not a number, in d3rlpy's losses and elsewhere.
FILL: Final = -1e8


def fit_network(decisions: Decisions, spec: Spec, settings: NetworkSettings) -> Network:
    """A network's shape, standardised on the feasible candidates of the training decisions."""
    context = range(len(spec.context)) if settings.context else ()
    return Network(
        settings,
        candidates=fit_map(
            spec.candidates, spec.learned_candidates, settings.quadratic, _some_rows(decisions)
        ),
        context=fit_map(spec.context, tuple(context), quadratic=False, rows=decisions.context),
    )


def _some_rows(decisions: Decisions) -> NDArray[np.float32]:
    """Feasible candidate rows of evenly spaced decisions, at most about 2^18 of them."""
    stride = max(1, decisions.mask.size >> 18)
    return decisions.candidates[::stride][decisions.mask[::stride]]


class CandidateScorer(nn.Module):
    """A linear score or a small network per candidate; weights named as in `layer_shapes`.

    A linear score starts at zero (its losses are convex or nearly so), a deeper one uniformly in
    +-1/sqrt(inputs), drawn from `rng`.
    """

    def __init__(self, network: Network, rng: np.random.Generator) -> None:
        super().__init__()
        self.activation = network.settings.activation
        self.split = network.candidates.size
        self.depth = len(network.settings.hidden) + 1
        for name, shape in network.shapes.items():
            inputs = network.shapes[name.replace("bias", "weight")][1]
            bound = 1.0 / math.sqrt(max(inputs, 1)) if network.settings.hidden else 0.0
            drawn = rng.uniform(-bound, bound, shape).astype(np.float32)
            self.register_parameter(name.replace(".", "_"), nn.Parameter(torch.from_numpy(drawn)))

    def forward(self, candidates: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """Scores (B, K) of padded observations; FILL where the mask forbids.

        A mask that is all false means "no mask": it stands for what follows a terminal decision,
        whose value is multiplied by zero and must be a number of ordinary size for that.
        """
        mask = mask | ~mask.any(dim=-1, keepdim=True)
        allowed = mask.view(-1).nonzero().squeeze(1)
        return self._spread(
            candidates.flatten(0, 1).index_select(0, allowed), context, mask, allowed
        )

    def packed(self, candidates: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """Scores (B, K), FILL where the mask forbids; `candidates` are the rows it allows."""
        return self._spread(candidates, context, mask, mask.view(-1).nonzero().squeeze(1))

    def _spread(self, candidates: Tensor, context: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
        """Packed scores back in their places, which are `allowed` in the flattened mask."""
        scores = self.ragged(candidates, context, allowed // mask.shape[1])
        filled = scores.new_full((mask.numel(),), FILL)
        return filled.index_copy(0, allowed, scores).view(mask.shape)

    def ragged(self, candidates: Tensor, context: Tensor, row: Tensor) -> Tensor:
        """Scores (sum of N,); `row` is the observation of each candidate."""
        weight, bias = self._layer(0)
        hidden = nn.functional.linear(candidates, weight[:, : self.split], bias)
        if weight.shape[1] > self.split:  # the context's part, once per observation
            part = nn.functional.linear(context, weight[:, self.split :])
            hidden = hidden.add_(part.index_select(0, row))
        for i in range(1, self.depth):
            # In place: the gradient of either needs its result, and nothing needs its input.
            hidden = hidden.relu_() if self.activation == "relu" else hidden.tanh_()
            hidden = nn.functional.linear(hidden, *self._layer(i))
        return hidden.squeeze(-1)

    def _layer(self, i: int) -> tuple[Tensor, Tensor]:
        return getattr(self, f"layer{i}_weight"), getattr(self, f"layer{i}_bias")

    def weights(self) -> Weights:
        """Copies of the weights as float32 arrays, by their checkpoint names."""
        return {
            name.replace("_", "."): value.detach().cpu().numpy().copy()
            for name, value in self.named_parameters()
        }


def log_probabilities(scores: Tensor, mask: Tensor, choice: Tensor, drawn: Tensor) -> Tensor:
    """Log-probability (D,) of the logged choice under the softmax over ALL feasible candidates.

    scores (D, K) with FILL, mask (D, K), choice (D,), drawn (D,) feasible candidates before the cut
    to K. Of the N - 1 that were not chosen n - 1 are here, drawn uniformly, so each stands for
    (N - 1) / (n - 1) of them: the sum of exponentials is unbiased, and without a cut exact.
    """
    shown = mask.sum(dim=-1)
    stands_for = (drawn - 1).clamp(min=1) / (shown - 1).clamp(min=1)
    weighted = scores + torch.log(stands_for).unsqueeze(-1)
    chosen = scores.gather(-1, choice.unsqueeze(-1))
    weighted = weighted.scatter(-1, choice.unsqueeze(-1), chosen)
    return chosen.squeeze(-1) - torch.logsumexp(weighted, dim=-1)
