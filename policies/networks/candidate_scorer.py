"""The masked candidate scorer in torch, with one output or several per candidate.

    padded   candidates (B, K, E), context (B, G + P), mask (B, K)           -> (B, K)
    packed   candidates (sum of mask, E), context (B, G + P), mask (B, K)    -> (B, K)
    ragged   candidates (sum of N, E), context (B, G + P), row (sum of N,)   -> (sum of N,)

If the network reads an image, its P pixels, 0 to 1, follow the context. A network of Q outputs
returns (B, K, Q) and (sum of N, Q).

Padded and packed inputs are computed as ragged ones. Rows that the mask forbids (about half of the
rows of a real log) cost nothing and cannot leak: a candidate that sees others sees only feasible
ones. Results do not depend on padding or on the order of the candidates. They depend on the number
of candidates only if candidates see each other. Inputs are expanded by
hindcast.policies.networks.features; hindcast.policies.networks.settings defines the shapes;
hindcast.policies.networks.policy computes the same without torch.
"""

import math
from typing import Any, ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks import forward
from hindcast.policies.networks.settings import (
    AttentionSettings,
    Network,
    NetworkSettings,
    Weights,
    make_network,
)

# Finite: -inf times a zero of a one-hot vector is not a number, in d3rlpy's losses and elsewhere.
FILL: Final = forward.FILL


def fit_network(decisions: Decisions, spec: Spec, settings: NetworkSettings) -> Network:
    """Return a network, standardised on the feasible candidates of the training decisions.

    Raises DatasetError if the settings have an image and the decisions have none.
    """
    if settings.image and decisions.image is None:
        raise DatasetError(
            f"network.image is {settings.image}, but these decisions have no image; use a recipe "
            "whose observations have an image, or image = 0"
        )
    pixels = int(np.prod(spec.image_shape)) if settings.image else 0
    rows, contexts = _some_rows(decisions), decisions.context
    return make_network(
        spec.context, spec.candidates, settings, pixels, rows, contexts, spec.scenario
    )


def expand_moment(
    network: Network, context: NDArray[np.floating], image: NDArray[np.uint8] | None
) -> NDArray[np.float32]:
    """Return the context input (B, G + P) of a scorer, from context (B, C) and image (B, P)."""
    expanded = network.context.expand(context)
    if not network.pixels:
        return expanded
    if image is None:
        raise DatasetError("this network reads an image, but these decisions have none")
    return np.concatenate([expanded, image.astype(np.float32) / np.float32(255.0)], axis=1)


def _some_rows(decisions: Decisions) -> NDArray[np.float32]:
    """Return the feasible candidate rows of evenly spaced decisions, at most about 2^18."""
    stride = max(1, decisions.mask.size >> 18)
    return decisions.candidates[::stride][decisions.mask[::stride]]


class WeightedModule(nn.Module):
    """A module whose parameters have the names of a checkpoint's weights, with `dot` for dots."""

    dot: ClassVar[str] = "_"

    def weights(self) -> Weights:
        """Return copies of the weights as float32 arrays, by checkpoint name."""
        return {
            name.replace(self.dot, "."): value.detach().cpu().numpy().copy()
            for name, value in self.named_parameters()
        }

    def set_weights(self, weights: Weights) -> None:
        """Copy weights, by checkpoint name, into the parameters."""
        given = {name.replace(".", self.dot): value for name, value in weights.items()}
        self.load_state_dict({name: torch.from_numpy(np.array(v)) for name, v in given.items()})


class CandidateScorer(WeightedModule):
    """A linear score or a small network per candidate, with weights named as in `layer_shapes`.

    A linear score starts at zero, because its losses are convex or nearly so. All other weights
    start uniformly in +-1/sqrt(inputs), drawn from `rng`.
    """

    def __init__(self, network: Network, rng: np.random.Generator) -> None:
        super().__init__()
        settings = network.settings
        if isinstance(settings, AttentionSettings):
            raise RecipeError(
                "network: this checkpoint has kind 'attention', which is not trained any more; it "
                "can act and be evaluated. Kind 'deepsets' sees the other candidates, too"
            )
        self.kind = settings.kind
        self.activation = settings.activation
        self.places = settings.places > 0
        self.split = 0 if self.places else network.candidates.size
        self.moment = network.context.size
        self.image = settings.image
        self.depth = len(settings.hidden) + 1
        self.outputs = network.outputs
        for name, shape in network.shapes.items():
            inputs = network.shapes[name.replace("bias", "weight")][1]
            convex = not (settings.hidden or settings.image) and network.outputs == 1
            bound = 0.0 if convex else 1.0 / math.sqrt(max(inputs, 1))
            start = rng.uniform(-bound, bound, shape).astype(np.float32)
            self.register_parameter(name.replace(".", "_"), nn.Parameter(torch.from_numpy(start)))

    def forward(self, candidates: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """Return scores (B, K) of padded observations, FILL where the mask is false.

        A mask that is all false counts as "no mask". It stands for the state after a terminal
        decision, whose value is multiplied by zero and must therefore be of ordinary size.
        """
        mask = mask | ~mask.any(dim=-1, keepdim=True)
        allowed = mask.view(-1).nonzero().squeeze(1)
        return self._spread(
            candidates.flatten(0, 1).index_select(0, allowed), context, mask, allowed
        )

    def packed(self, candidates: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """Return scores (B, K), FILL where the mask is false; `candidates` are the other rows."""
        return self._spread(candidates, context, mask, mask.view(-1).nonzero().squeeze(1))

    def _spread(self, candidates: Tensor, context: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
        """Put packed scores back in their places, `allowed` in the flattened mask."""
        scores = self.ragged(candidates, context, allowed // mask.shape[1])
        filled = scores.new_full((mask.numel(), *scores.shape[1:]), FILL)
        return filled.index_copy(0, allowed, scores).view(*mask.shape, *scores.shape[1:])

    def ragged(self, candidates: Tensor, context: Tensor, row: Tensor) -> Tensor:
        """Return scores (sum of N,); `row`, ascending, is the observation of each candidate."""
        if self.places:
            weight, bias = self._layer("layer0")
            scores = nn.functional.linear(self._moment(context), weight, bias)
            return scores[row, candidates[:, 0].long()]
        hidden = self._first(candidates, context, row)
        if self.depth > 1:
            hidden = self._activate(hidden)
        for i in range(1, self.depth):
            if i == 1 and self.kind == "deepsets":
                hidden = self._pool(hidden, row, len(context))
            else:
                hidden = nn.functional.linear(hidden, *self._layer(f"layer{i}"))
            if i < self.depth - 1:
                hidden = self._activate(hidden)
        return hidden.squeeze(-1) if self.outputs == 1 else hidden

    def _first(self, candidates: Tensor, context: Tensor, row: Tensor) -> Tensor:
        """Apply layer 0; its product with context and image is computed once per observation."""
        weight, bias = self._layer("layer0")
        hidden = nn.functional.linear(candidates, weight[:, : self.split], bias)
        if weight.shape[1] > self.split:
            part = nn.functional.linear(self._moment(context), weight[:, self.split :])
            hidden = hidden.add_(part.index_select(0, row))
        return hidden

    def _moment(self, context: Tensor) -> Tensor:
        """Return context and image layer, (B, G + image)."""
        if not self.image:
            return context
        pixels = nn.functional.linear(context[:, self.moment :], *self._layer("image"))
        return torch.cat([context[:, : self.moment], self._activate(pixels)], dim=1)

    def _activate(self, hidden: Tensor) -> Tensor:
        """Apply the activation in place; its gradient needs only the result."""
        return hidden.relu_() if self.activation == "relu" else hidden.tanh_()

    def _pool(self, encoded: Tensor, row: Tensor, count: int) -> Tensor:
        """Apply layer 1 to [encoding | mean | maximum]; the pooled part once per observation."""
        weight, bias = self._layer("layer1")
        width = encoded.shape[1]
        pooled = nn.functional.linear(pool(encoded, row, count), weight[:, width:], bias)
        hidden = nn.functional.linear(encoded, weight[:, :width])
        return hidden.add_(pooled.index_select(0, row))

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        return getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias")


def pool(rows: Tensor, row: Tensor, count: int) -> Tensor:
    """Return mean and maximum (B, 2 W) of each observation's rows (M, W); zeros without rows."""
    size = torch.bincount(row, minlength=count)
    total, highest = _Reduced.apply(rows, row, size)  # type: ignore[no-untyped-call]
    some = (size > 0).unsqueeze(1)
    return torch.cat([total / size.clamp(min=1).unsqueeze(1), highest.where(some, 0.0)], dim=1)


class _Reduced(torch.autograd.Function):
    """Sum and maximum of each segment, with gradients of second order.

    torch.segment_reduce has no second-order gradient, which Fisher-vector products need. Its own
    gradient is used when no second-order one is requested. The gradient of a maximum is shared
    evenly by the rows that attain it.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, row: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        """Reduce rows (M, W) to segments: `row` (M,) of each row, of `size` (B,) rows."""
        total, highest = (
            torch.segment_reduce(rows, what, lengths=size, axis=0, unsafe=True)
            for what in ("sum", "max")
        )
        ctx.save_for_backward(rows, row, size, total, highest)
        return total, highest

    @staticmethod
    def backward(ctx: Any, total: Tensor, highest: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of the rows from those of the sum and the maximum."""
        rows, row, size, summed, found = ctx.saved_tensors
        if not torch.is_grad_enabled():
            parts = (
                torch.ops.aten._segment_reduce_backward(  # noqa: SLF001
                    slope.contiguous(), value, rows, what, lengths=size, axis=0
                )
                for slope, value, what in ((total, summed, "sum"), (highest, found, "max"))
            )
            return next(parts) + next(parts), None, None
        reached = (rows == found.index_select(0, row)).to(rows.dtype)
        count = torch.zeros_like(found).index_add(0, row, reached)
        shared = highest.index_select(0, row) / count.index_select(0, row) * reached
        return total.index_select(0, row) + shared, None, None


def drawn_logits(scores: Tensor, mask: Tensor, choice: Tensor, drawn: Tensor) -> Tensor:
    """Return scores (D, K) whose softmax estimates the one over ALL feasible candidates.

    scores (D, K) with FILL, mask (D, K), choice (D,), drawn (D,) the number of feasible candidates
    before the cut to K. Of the N - 1 candidates that were not chosen, n - 1 are kept, drawn
    uniformly, so each counts (N - 1) / (n - 1) times. The sum of exponentials is unbiased, and
    exact without a cut.
    """
    shown = mask.sum(dim=-1)
    stands_for = (drawn - 1).clamp(min=1) / (shown - 1).clamp(min=1)
    weighted = scores + torch.log(stands_for).unsqueeze(-1)
    at = choice.unsqueeze(-1)
    return weighted.scatter(-1, at, scores.gather(-1, at))


def log_probabilities(scores: Tensor, mask: Tensor, choice: Tensor, drawn: Tensor) -> Tensor:
    """Return the log-probability (D,) of the logged choice by the softmax of `drawn_logits`."""
    chosen = scores.gather(-1, choice.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(drawn_logits(scores, mask, choice, drawn), dim=-1)
