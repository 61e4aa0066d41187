"""Q-learning over masked candidates with d3rlpy's algorithms; loaded only when one is trained.

d3rlpy has no action masks. Here an observation is a tuple that carries its own,

    [context (B, G), candidates (B, K, E), mask (B, K)]     all float32, features expanded

and the Q function fills what the mask forbids with a finite number inside `forward`. That reaches
everything built on it: argmax, TD target, CQL's logsumexp. Minibatches are gathered by index and
handed to `algorithm.update`, which also keeps the last transition of truncated episodes (d3rlpy's
buffers drop it). Afterwards the weights are taken out; acting needs no d3rlpy.

Values are learned of reward * scale, with `scale` one over the typical size of a return, so that
they are of order one whatever the unit of the reward; the order of the candidates is unchanged.
Where candidates were cut to K, maxima run over the K that are there.
"""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import structlog
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.decisions import Decisions
from pipeline.errors import DatasetError
from pipeline.schema import Spec
from policies.checkpoint import Trained
from policies.learned import Network
from policies.networks import CandidateScorer, fit_network
from policies.offline.double_dqn import Config
from policies.offline.minibatches import draw_rows, expand_padded
from policies.offline.optimisation import Curves, one_thread

_VALIDATED: Final = 1024  # transitions
_EXPANDED_BYTES: Final = 1 << 30  # of one set of candidates; above it minibatches are expanded


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Undo what importing d3rlpy does to others: gym's notice, structlog's settings, TF32."""
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
    from d3rlpy.dataset import TransitionMiniBatch
    from d3rlpy.models.encoders import EncoderFactory
    from d3rlpy.models.q_functions import QFunctionFactory
    from d3rlpy.models.torch import DiscreteMeanQFunctionForwarder, DiscreteQFunction
    from d3rlpy.models.torch.q_functions.base import QFunctionOutput
    from d3rlpy.torch_utility import TorchMiniBatch


class _Encoder(torch.nn.Module):
    """The scorer behind d3rlpy's notion of an encoder: observation -> (B, K), masked."""

    def __init__(self, network: Network, rng: np.random.Generator) -> None:
        super().__init__()
        self.scorer = CandidateScorer(network, rng)

    def forward(self, observation: list[Tensor]) -> Tensor:
        context, candidates, mask = observation
        return self.scorer(candidates, context, mask > 0)  # type: ignore[no-any-return]


class MaskedEncoderFactory(EncoderFactory):  # type: ignore[misc]
    """Makes scorers with weights drawn from a numpy generator, not from torch's global one."""

    def __init__(self, network: Network, rng: np.random.Generator) -> None:
        self._network, self._rng = network, rng

    def create(self, observation_shape: Any) -> _Encoder:  # noqa: ARG002
        """One scorer; d3rlpy asks for two, and copies the first into the second."""
        return _Encoder(self._network, self._rng)

    @staticmethod
    def get_type() -> str:
        """How d3rlpy's own files would call it."""
        return "hindcast_candidates"


class MaskedQFunction(DiscreteQFunction):  # type: ignore[misc]
    """Q values (B, K) of the candidates, FILL where the mask forbids."""

    def __init__(self, encoder: _Encoder) -> None:
        super().__init__()
        self._encoder = encoder

    def forward(self, x: list[Tensor]) -> Any:
        """Values as d3rlpy wants them."""
        return QFunctionOutput(q_value=self._encoder(x), quantiles=None, taus=None)

    @property
    def encoder(self) -> _Encoder:
        """The scorer behind the values."""
        return self._encoder


class MaskedQFunctionFactory(QFunctionFactory):  # type: ignore[misc]
    """Makes masked Q functions with d3rlpy's own mean-value TD error."""

    def create_discrete(
        self,
        encoder: _Encoder,
        hidden_size: int,  # noqa: ARG002
        action_size: int,
    ) -> tuple[MaskedQFunction, Any]:
        """The Q function and what computes its errors."""
        q_function = MaskedQFunction(encoder)
        return q_function, DiscreteMeanQFunctionForwarder(q_function, action_size)

    @staticmethod
    def get_type() -> str:
        """How d3rlpy's own files would call it."""
        return "hindcast_masked"


def create(make: Callable[..., Any], decisions: Decisions, network: Network, seed: int) -> Any:
    """A d3rlpy algorithm over the shapes of these decisions.

    `make(encoder_factory=, q_func_factory=)` gives its config. Torch's own generator is left as it
    was: weights are drawn from `seed`.
    """
    factory = MaskedEncoderFactory(network, np.random.default_rng(seed))
    algorithm = make(
        encoder_factory=factory, q_func_factory=MaskedQFunctionFactory()
    ).create(device="cpu:0")  # fmt: skip
    k = decisions.mask.shape[1]
    shapes = [(network.context.size,), (k, network.candidates.size), (k,)]
    with torch.random.fork_rng(devices=[]):
        algorithm.create_impl(shapes, k)
    return algorithm


class _Observations:
    """Observations that minibatches are gathered from, expanded once where memory allows."""

    def __init__(
        self,
        network: Network,
        context: NDArray[np.float32],
        candidates: NDArray[np.float32],
        mask: NDArray[np.bool_],
    ) -> None:
        self._map, self._mask = network.candidates, mask
        self._context = network.context.expand(context)
        self._expanded = mask.size * network.candidates.size * 4 <= _EXPANDED_BYTES
        self._candidates = (
            expand_padded(self._map, candidates, mask) if self._expanded else candidates
        )

    def at(self, rows: NDArray[np.int64]) -> list[NDArray[np.float32]]:
        """[context (B, G), candidates (B, K, E), mask (B, K)] as d3rlpy takes them."""
        candidates, mask = self._candidates[rows], self._mask[rows]
        if not self._expanded:
            candidates = expand_padded(self._map, candidates, mask)
        return [self._context[rows], candidates, mask.astype(np.float32)]


class TransitionSampler:
    """Minibatches of transitions by index gathering, rewards scaled, features expanded."""

    def __init__(
        self, decisions: Decisions, network: Network, *, scale: float, per_second: bool
    ) -> None:
        d = decisions
        if d.next_context is None or d.next_candidates is None or d.next_mask is None:
            raise DatasetError("these decisions came without what followed them")
        self._now = _Observations(network, d.context, d.candidates, d.mask)
        self._next = _Observations(network, d.next_context, d.next_candidates, d.next_mask)
        interval = d.elapsed_s if per_second else np.ones(len(d))
        self._interval = interval.astype(np.float32)[:, None]
        self._reward = (d.reward * scale).astype(np.float32)[:, None]
        self._terminal = d.terminated.astype(np.float32)[:, None]
        self._action = d.choice.astype(np.float32)[:, None]

    def batch(self, rows: NDArray[np.int64]) -> Any:
        """d3rlpy's TransitionMiniBatch of these rows (B,)."""
        action = self._action[rows]
        return TransitionMiniBatch(
            observations=self._now.at(rows),
            actions=action,
            rewards=self._reward[rows],
            next_observations=self._next.at(rows),
            next_actions=action,  # not read by the algorithms here
            terminals=self._terminal[rows],
            intervals=self._interval[rows],
            transitions=[],
        )


def reward_scale(decisions: Decisions, discount: float) -> float:
    """One over the mean size of an episode's return, or of what a discount leaves of it."""
    returns = np.abs(decisions.episodes["return"].to_numpy()).mean()
    if discount < 1.0:
        returns = min(returns, np.abs(decisions.reward).mean() / (1.0 - discount))
    return 1.0 / float(returns) if returns > 0.0 else 1.0


def train_q(
    agent: str,
    make: Callable[..., Any],
    decisions: Decisions,
    spec: Spec,
    config: Config,
    *,
    steps: int,
    seed: int,
    validation: Decisions | None,
    progress: Callable[[int, int], None],
) -> Trained:
    """Train a d3rlpy Q-learning algorithm; `make(gamma=, ...)` gives its config."""
    discount = spec.discount if config.discount is None else config.discount
    scale = config.reward_scale or reward_scale(decisions, discount)
    network = fit_network(decisions, spec, config.network)
    per_second = config.discount_per == "second"
    sampler = TransitionSampler(decisions, network, scale=scale, per_second=per_second)
    held_out = None
    if validation is not None and len(validation) and validation.next_mask is not None:
        held_out = TransitionSampler(validation, network, scale=scale, per_second=per_second)
        rows = np.arange(0, len(validation), -(-len(validation) // _VALIDATED))

    rng = np.random.default_rng(seed)
    curves = Curves(steps)
    with one_thread():
        algorithm = create(
            lambda **parts: make(
                gamma=discount,
                batch_size=config.minibatch,
                learning_rate=config.learning_rate,
                target_update_interval=config.target_update_interval,
                **parts,
            ),
            decisions, network, seed,
        )  # fmt: skip
        for step in range(1, steps + 1):
            batch = sampler.batch(draw_rows(len(decisions), config.minibatch, rng))
            curves.add(algorithm.update(batch))
            if curves.due(step):
                extra = {} if held_out is None else _validate(algorithm, held_out.batch(rows))
                curves.point(step, extra)
                progress(step, steps)
    scorer = algorithm.impl.q_function[0].encoder.scorer
    return Trained(agent, spec, network, scorer.weights(), {}, steps, seed, tuple(curves.rows))


@torch.no_grad()
def _validate(algorithm: Any, batch: Any) -> Mapping[str, float]:
    """The algorithm's own loss on transitions that it was not trained on."""
    tensors = TorchMiniBatch.from_batch(
        batch, gamma=algorithm.gamma, compute_returns_to_go=False, device="cpu:0"
    )
    target = algorithm.impl.compute_target(tensors)
    return {"validation_loss": float(algorithm.impl.compute_loss(tensors, target).loss)}
