"""Gradient steps per second: index gathering + update, against d3rlpy's own `fit`.

    python -m tests.benchmarks training

Same made-up transitions, same network, same update; what differs is where a minibatch comes from.
`fit` gets features that were expanded beforehand, ours expands every minibatch. The two take turns;
medians over the rounds are compared. Both on one thread of torch.
"""

import contextlib
import io
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.decisions import Decisions
from pipeline.schema import Feature, Spec

MINIBATCH = 256
CANDIDATES = 32
ROWS = 20_000
EPISODE = 200  # decisions
SPEC = Spec(
    scenario="made_up",
    objective="gain",
    context=tuple(Feature(f"c{i}", "1", 0, np.inf, "", heavy_tailed=i < 2) for i in range(7)),
    candidates=tuple(Feature(f"x{i}", "1", 0, np.inf, "", heavy_tailed=i < 2) for i in range(6)),
    reward_terms=(),
    outcomes=(),
)


@dataclass(frozen=True)
class Measured:
    """Medians over rounds, in gradient steps per second."""

    own: float
    d3rlpy_fit: float

    @property
    def ratio(self) -> float:
        """How many times as fast as d3rlpy's `fit`."""
        return self.own / self.d3rlpy_fit


def made_up(rng: np.random.Generator) -> Decisions:
    """Transitions with 2 to 32 candidates; the next observation of a row is the row after it."""
    mask = np.arange(CANDIDATES) < rng.integers(2, CANDIDATES + 1, ROWS)[:, None]
    candidates = rng.lognormal(size=(ROWS, CANDIDATES, 6)).astype(np.float32) * mask[..., None]
    context = rng.lognormal(size=(ROWS, 7)).astype(np.float32)
    terminated = np.arange(ROWS) % EPISODE == EPISODE - 1
    following = np.where(terminated, 0, np.minimum(np.arange(ROWS) + 1, ROWS - 1))
    return Decisions(
        context=context,
        candidates=candidates,
        mask=mask,
        drawn=mask.sum(axis=1),
        choice=rng.integers(0, mask.sum(axis=1)),
        propensity=np.ones(ROWS, np.float32),
        reward=-rng.random(ROWS),
        elapsed_s=np.ones(ROWS),
        terminated=terminated,
        episode=np.arange(ROWS) // EPISODE,
        step=np.arange(ROWS) % EPISODE,
        episodes=pl.DataFrame({"return": np.full(ROWS // EPISODE, -EPISODE / 2)}),
        next_context=context[following] * ~terminated[:, None],
        next_candidates=candidates[following] * ~terminated[:, None, None],
        next_mask=mask[following] & ~terminated[:, None],
    )


def compare(rounds: int = 15, steps: int = 30) -> Measured:
    """Run both in turns, `rounds` times `steps` gradient steps each."""
    from policies.networks import fit_network
    from policies.offline.double_dqn import Config
    from policies.offline.masked_q import TransitionSampler, create
    from policies.offline.minibatches import draw_rows, expand_padded
    from policies.offline.optimisation import one_thread

    from d3rlpy.algos import DoubleDQNConfig  # isort: skip
    from d3rlpy.dataset import MDPDataset  # isort: skip

    rng = np.random.default_rng(0)
    decisions = made_up(rng)
    network = fit_network(decisions, SPEC, Config().network)

    def algorithm() -> Any:
        return create(
            lambda **parts: DoubleDQNConfig(batch_size=MINIBATCH, learning_rate=1e-3, **parts),
            decisions, network, seed=0,
        )  # fmt: skip

    sampler = TransitionSampler(decisions, network, scale=1.0, per_second=False)
    own_algorithm, fit_algorithm = algorithm(), algorithm()
    with contextlib.redirect_stdout(io.StringIO()):
        buffer = MDPDataset(
            observations=[
                network.context.expand(decisions.context),
                expand_padded(network.candidates, decisions.candidates, decisions.mask),
                decisions.mask.astype(np.float32),
            ],
            actions=decisions.choice[:, None],
            rewards=decisions.reward.astype(np.float32)[:, None],
            terminals=decisions.terminated.astype(np.float32),
            action_size=CANDIDATES,
        )

    def own() -> None:
        for _ in range(steps):
            own_algorithm.update(sampler.batch(draw_rows(ROWS, MINIBATCH, rng)))

    def fit() -> None:
        _quiet_fit(fit_algorithm, buffer, steps)

    seconds: dict[str, list[float]] = {"own": [], "fit": []}
    with one_thread():
        own()  # both once for nothing: compilation, first allocations
        fit()
        for _ in range(rounds):
            for name, run in (("own", own), ("fit", fit)):
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
    return Measured(
        own=steps / float(np.median(seconds["own"])),
        d3rlpy_fit=steps / float(np.median(seconds["fit"])),
    )


def _quiet_fit(algorithm: Any, buffer: Any, steps: int) -> None:
    """d3rlpy's `fit` with its default sampler, without progress bar and log files."""
    from d3rlpy.logging import NoopAdapterFactory

    with contextlib.redirect_stdout(io.StringIO()):
        algorithm.fit(
            buffer,
            n_steps=steps,
            n_steps_per_epoch=steps,
            logger_adapter=NoopAdapterFactory(),
            show_progress=False,
        )


def measure() -> list[tuple[str, float, str, str]]:
    """(what, value, unit, beside)."""
    rates = compare()
    return [
        ("training, own sampler + update", rates.own, "steps/s", "double DQN, 256 x 32"),
        ("training, d3rlpy's own fit", rates.d3rlpy_fit, "steps/s", "same data and network"),
        ("training, ratio", rates.ratio, "x", ""),
    ]
