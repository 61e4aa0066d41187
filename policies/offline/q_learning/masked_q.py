"""Q-learning over masked candidates with d3rlpy's algorithms; loaded only when one is trained.

d3rlpy has no action masks. Here an observation is a tuple that carries its own mask,

    [context (B, G), candidates (sum of mask, E), mask (B, K)]          features expanded

and the Q function fills masked entries with a finite number inside `forward`. The fill reaches
everything built on `forward`: argmax, TD target, CQL's logsumexp. Minibatches are gathered by index
on the device of the training and handed to the algorithm's own loss. They keep the last transition
of truncated episodes, which d3rlpy's buffers drop. Afterwards the weights are extracted; acting
needs no d3rlpy.

With quantiles, a forbidden candidate has no return, and so no distribution of returns. All its
quantiles, and so their mean, are the fill. The greedy choice, taken by means, never falls on the
candidate; its quantiles are never picked for a target; and the loss, over the quantiles of the
logged choice alone, never reaches it. After a terminal decision there are no candidates at all:
every quantile there is the fill, times zero. So the masked head is sound. Since the mean is linear,
the scorer that acts is the same network with its last layer averaged over the quantiles.

If candidates were cut to K, maxima are over those K.
"""

import contextlib
import dataclasses
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import structlog
import torch
from torch import Tensor

from hindcast.policies.networks.candidate_scorer import CandidateScorer, fit_network
from hindcast.policies.networks.settings import Network, Weights
from hindcast.policies.training.learner import Info, Learner, Task, nothing_to_validate
from hindcast.policies.training.minibatches import Batches, Transitions, draw_rows, spaced_rows
from hindcast.policies.training.values import ValueSettings, ValueUnit, value_unit

_VALIDATED: Final = 1024  # transitions


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Undo side effects of importing d3rlpy: gym's notice, structlog's settings, TF32."""
    configured, settings = structlog.is_configured(), structlog.get_config()
    precision = torch.get_float32_matmul_precision()
    notice = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stderr(notice):
        warnings.simplefilter("ignore")
        yield
    torch.set_float32_matmul_precision(precision)
    if configured:
        structlog.configure(**settings)
    else:
        structlog.reset_defaults()


with _undisturbed():
    from d3rlpy.models.encoders import EncoderFactory
    from d3rlpy.models.q_functions import QFunctionFactory
    from d3rlpy.models.torch import DiscreteMeanQFunctionForwarder, DiscreteQFunction
    from d3rlpy.models.torch.q_functions.base import QFunctionOutput
    from d3rlpy.models.torch.q_functions.qr_q_function import DiscreteQRQFunctionForwarder
    from d3rlpy.torch_utility import TorchMiniBatch


class _Encoder(torch.nn.Module):
    """The scorer as an encoder of d3rlpy: observation -> (B, K, ...), masked."""

    def __init__(self, network: Network, rng: np.random.Generator) -> None:
        super().__init__()
        self.scorer = CandidateScorer(network, rng)

    def forward(self, observation: list[Tensor]) -> Tensor:
        context, candidates, mask = observation
        if candidates.dim() == 3:  # padded candidates, with which d3rlpy tests new encoders
            return self.scorer(candidates, context, mask > 0)  # type: ignore[no-any-return]
        return self.scorer.packed(candidates, context, mask)


class MaskedEncoderFactory(EncoderFactory):  # type: ignore[misc]
    """A factory of scorers with weights drawn from a numpy generator, not torch's global one."""

    def __init__(self, network: Network, rng: np.random.Generator) -> None:
        self._network, self._rng = network, rng

    def create(self, observation_shape: Any) -> _Encoder:  # noqa: ARG002
        """Return one scorer; d3rlpy requests two, and copies the first into the second."""
        return _Encoder(self._network, self._rng)

    @staticmethod
    def get_type() -> str:
        """Return the name of this factory in d3rlpy's own files."""
        return "hindcast_candidates"


class MaskedQFunction(DiscreteQFunction):  # type: ignore[misc]
    """Q values (B, K) of the candidates, FILL where the mask forbids; with quantiles, their mean.

    Attributes:
        seen: Values of the last call, for the curves.
    """

    def __init__(self, encoder: _Encoder, quantiles: int) -> None:
        super().__init__()
        self._encoder, self._quantiles = encoder, quantiles
        self.seen: Tensor | None = None

    def forward(self, x: list[Tensor]) -> Any:
        """Return the values in d3rlpy's output type."""
        output, n = self._encoder(x), self._quantiles
        value = output.mean(dim=2) if n else output
        self.seen = value.detach()
        if not n:
            return QFunctionOutput(q_value=value, quantiles=None, taus=None)
        taus = (torch.arange(n, device=value.device, dtype=value.dtype) + 0.5) / n
        return QFunctionOutput(q_value=value, quantiles=output, taus=taus[None])

    @property
    def encoder(self) -> _Encoder:
        """The scorer behind the values."""
        return self._encoder


class MaskedQFunctionFactory(QFunctionFactory):  # type: ignore[misc]
    """A factory of masked Q functions with d3rlpy's own losses, of values or of quantiles."""

    def __init__(self, quantiles: int = 0) -> None:
        self._quantiles = quantiles

    def create_discrete(
        self, encoder: _Encoder, hidden_size: int, action_size: int  # noqa: ARG002
    ) -> tuple[MaskedQFunction, Any]:  # fmt: skip
        """Return the Q function and the object that computes its losses."""
        q_function = MaskedQFunction(encoder, self._quantiles)
        if self._quantiles:
            return q_function, DiscreteQRQFunctionForwarder(q_function, self._quantiles)
        return q_function, DiscreteMeanQFunctionForwarder(q_function, action_size)

    @staticmethod
    def get_type() -> str:
        """Return the name of this factory in d3rlpy's own files."""
        return "hindcast_masked"


def create(
    make: Callable[..., Any],
    network: Network,
    k: int,
    seed: int,
    *,
    quantiles: int = 0,
    device: torch.device | None = None,
) -> Any:
    """Return a d3rlpy algorithm over K candidates.

    `make(encoder_factory=, q_func_factory=)` returns the algorithm's config. Weights are drawn from
    `seed`, and torch's own generator is left unchanged.
    """
    scored = dataclasses.replace(network, outputs=quantiles or 1)
    place = device or torch.device("cpu")
    algorithm = make(
        encoder_factory=MaskedEncoderFactory(scored, np.random.default_rng(seed)),
        q_func_factory=MaskedQFunctionFactory(quantiles),
    ).create(device=f"{place.type}:{place.index or 0}")
    shapes = [(network.context.size + network.pixels,), (k, network.candidates.size), (k,)]
    with torch.random.fork_rng(devices=[]):
        algorithm.create_impl(shapes, k)
    return algorithm


def d3rlpy_batch(steps: Transitions, unit: ValueUnit) -> Any:
    """Return transitions as the minibatch of d3rlpy's losses."""
    now, after = steps.now, steps.after
    action = now.choice[:, None]
    reward = unit.gain(steps)[:, None]
    return TorchMiniBatch(
        observations=[now.context, now.candidates, now.mask],
        actions=action,
        rewards=reward,
        next_observations=[after.context, after.candidates, after.mask],
        next_actions=action,  # the algorithms here read neither next_actions nor returns_to_go
        returns_to_go=reward,
        terminals=1.0 - unit.remaining(steps)[:, None],  # between 0 and 1 with Monte Carlo returns
        intervals=unit.interval(steps)[:, None],
        device=str(reward.device),
    )


def update(impl: Any, batch: Any, step: int, interval: int, unit: ValueUnit) -> Info:
    """Take one step of the algorithm, counted from 1, as its own `update` does.

    Metrics stay on the device, where `update` would fetch them at every step.
    """
    impl.q_function_optim.zero_grad()
    target = impl.compute_target(batch)
    loss = impl.compute_loss(batch, target)
    loss.loss.backward()
    impl.q_function_optim.step()
    if (step - 1) % interval == 0:
        impl.update_target()
    losses: Info = {f.name: getattr(loss, f.name).detach() for f in dataclasses.fields(loss)}
    return {**losses, **_values(impl, batch, target, unit)}


def _values(impl: Any, batch: Any, target: Tensor, unit: ValueUnit) -> Info:
    """Return the mean value of the logged choices, and the mean size of their TD errors."""
    value = impl.q_function[0].seen.gather(1, batch.actions)
    following = target.mean(dim=1, keepdim=True)  # over the quantiles of a target, if it has any
    y = batch.rewards + unit.discount**batch.intervals * (1.0 - batch.terminals) * following
    return {"td_error": (y - value).abs().mean(), "mean_q": value.mean()}


def q_learner(
    make: Callable[..., Any], task: Task, config: ValueSettings, *, interval: int, quantiles: int
) -> Learner:
    """Return one run of a d3rlpy Q-learning algorithm; `make(gamma=, ...)` gives its config.

    `interval` is the number of steps between two copies of the values into their target.
    """
    decisions, validation, device = task.decisions, task.validation, task.device
    unit = value_unit(decisions, task.spec, config)
    network = fit_network(decisions, task.spec, config.network)
    impl = create(
        lambda **parts: make(
            gamma=unit.discount,
            batch_size=config.minibatch,
            learning_rate=config.learning_rate,
            **parts,
        ),
        network, decisions.mask.shape[1], task.seed, quantiles=quantiles, device=device,
    ).impl  # fmt: skip
    batches = Batches(unit.prepare(decisions), network, device)
    rng = np.random.default_rng(task.seed)

    def step(number: int) -> Info:
        rows = draw_rows(len(decisions), config.minibatch, rng)
        batch = d3rlpy_batch(batches.transitions(rows), unit)
        return update(impl, batch, number, interval, unit)

    validate = nothing_to_validate
    if validation is not None and len(validation) and validation.next_mask is not None:
        held_out = Batches(unit.prepare(validation), network, device)
        steps = held_out.transitions(spaced_rows(len(validation), _VALIDATED))
        fixed = d3rlpy_batch(steps, unit)

        @torch.no_grad()
        def validate() -> Mapping[str, float]:
            """Return the algorithm's own loss and TD errors on validation transitions."""
            target = impl.compute_target(fixed)
            loss = impl.compute_loss(fixed, target).loss
            metrics = {"loss": loss, **_values(impl, fixed, target, unit)}
            return {f"validation_{name}": float(value) for name, value in metrics.items()}

    return Learner(
        network=network,
        weights=lambda: _acting(network, impl.q_function[0].encoder.scorer.weights(), quantiles),
        modules={"q": impl.q_function, "target": impl.modules.targ_q_funcs},
        optimisers={"q": impl.q_function_optim},
        rng=rng,
        step=step,
        validate=validate,
        decays=False,
    )


def _acting(network: Network, weights: Weights, quantiles: int) -> Weights:
    """Return the weights of the acting scorer: with quantiles, its last layer gives their mean."""
    if not quantiles:
        return weights
    last_layer = f"layer{len(network.settings.hidden)}."
    return {
        name: value.mean(axis=0, keepdims=True) if name.startswith(last_layer) else value
        for name, value in weights.items()
    }
