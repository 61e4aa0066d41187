"""The objective of proximal policy optimisation, for choices and for continuous actions alike.

    ratio = pi(a) / pi_old(a)
    gain  = min(ratio A, clip(ratio, 1 - clip, 1 + clip) A)        per decision

At ratio 1 its gradient is the policy gradient, A grad log pi(a). Where a step has made a good
choice likelier, or a bad one less likely, by more than `clip`, nothing more is to be gained and the
gradient is zero; where it has done the opposite, the whole gradient is left to undo it.

Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017, equation 7.
"""

import torch
from torch import Tensor


def clipped_gain(log_probability: Tensor, old: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Gain (T,) of T decisions; log-probabilities, or densities, now and when drawn (T,)."""
    ratio = (log_probability - old).exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


@torch.no_grad()
def divergence(log_probability: Tensor, old: Tensor) -> Tensor:
    """Estimates (T,) of KL(old || now) from what was drawn, none below zero: ratio - 1 - log ratio.

    Their mean over draws of `old` is the divergence.
    """
    change = log_probability - old
    return change.exp() - 1.0 - change
