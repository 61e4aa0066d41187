"""Gradient steps per second: index gathering + update, against d3rlpy's own `fit`.

    python -m tests.benchmarks training

Both have the same made-up transitions, network and update, and differ in the source of a minibatch:
`fit` gets features that were expanded beforehand, ours expands every minibatch. The two take turns
on one thread of torch, and medians over the rounds are compared. The whole loop is ours with
everything around a step: curves, monitoring, and saved states to resume from.
"""

import contextlib
import io
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pipeline.dataset.decisions import Decisions
from pipeline.simulation.spec import Feature, Spec

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
        """Return the speed relative to d3rlpy's `fit`."""
        return self.own / self.d3rlpy_fit


def made_up(rng: np.random.Generator, rows: int = ROWS) -> Decisions:
    """Return transitions with 2 to 32 candidates, chosen uniformly, with all data that agents need.

    The next observation of a row is the row after it.
    """
    mask = np.arange(CANDIDATES) < rng.integers(2, CANDIDATES + 1, rows)[:, None]
    probabilities = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
    candidates = rng.lognormal(size=(rows, CANDIDATES, 6)).astype(np.float32) * mask[..., None]
    context = rng.lognormal(size=(rows, 7)).astype(np.float32)
    terminated = np.arange(rows) % EPISODE == EPISODE - 1
    reward = -rng.random(rows)
    following = np.where(terminated, 0, np.minimum(np.arange(rows) + 1, rows - 1))
    return Decisions(
        context=context,
        candidates=candidates,
        mask=mask,
        drawn=mask.sum(axis=1),
        choice=rng.integers(0, mask.sum(axis=1)),
        propensity=probabilities[:, 0],
        reward=reward,
        elapsed_s=np.ones(rows),
        terminated=terminated,
        probabilities=probabilities,
        episode=np.arange(rows) // EPISODE,
        step=np.arange(rows) % EPISODE,
        episodes=pl.DataFrame(
            {
                "episode": np.arange(rows // EPISODE),
                "split": "train",
                "behaviour": "random",
                "seed": np.arange(rows // EPISODE) % 4,
                "window": np.arange(rows // EPISODE) // 4,
                "steps": np.full(rows // EPISODE, EPISODE),
                "return": reward.reshape(-1, EPISODE).sum(axis=1),
            }
        ),
        next_context=context[following] * ~terminated[:, None],
        next_candidates=candidates[following] * ~terminated[:, None, None],
        next_mask=mask[following] & ~terminated[:, None],
    )


def compare(rounds: int = 15, steps: int = 30) -> Measured:
    """Run both in turns, for `rounds` rounds of `steps` gradient steps each."""
    import torch

    from policies.networks.candidate_scorer import fit_network
    from policies.offline.q_learning.agents import DqnConfig
    from policies.offline.q_learning.masked_q import create, d3rlpy_batch, update
    from policies.training.devices import repeatable
    from policies.training.minibatches import Batches, draw_rows
    from policies.training.values import ValueUnit

    from d3rlpy.algos import DoubleDQNConfig  # isort: skip

    rng = np.random.default_rng(0)
    decisions = made_up(rng)
    network = fit_network(decisions, SPEC, DqnConfig().network)

    def algorithm() -> Any:
        return create(
            lambda **parts: DoubleDQNConfig(batch_size=MINIBATCH, learning_rate=1e-3, **parts),
            network, CANDIDATES, seed=0,
        )  # fmt: skip

    cpu = torch.device("cpu")
    batches = Batches(decisions, network, cpu)
    unit = ValueUnit(scale=1.0, discount=0.99, per_second=False)
    own_algorithm, fit_algorithm = algorithm().impl, algorithm()
    buffer = d3rlpy_buffer(network, decisions)

    def own() -> None:
        for step in range(1, steps + 1):
            batch = d3rlpy_batch(batches.transitions(draw_rows(ROWS, MINIBATCH, rng)), unit)
            update(own_algorithm, batch, step, 8000, unit)

    def fit() -> None:
        quiet_fit(fit_algorithm, buffer, steps)

    seconds: dict[str, list[float]] = {"own": [], "fit": []}
    with repeatable(cpu):
        own()  # one round of both is not counted: compilation and first allocations
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


def d3rlpy_buffer(network: Any, decisions: Decisions) -> Any:
    """Return the decisions as d3rlpy samples them, with features expanded beforehand."""
    from policies.offline.q_learning import masked_q  # noqa: F401, I001  it keeps d3rlpy's import quiet
    from d3rlpy.dataset import MDPDataset

    with contextlib.redirect_stdout(io.StringIO()):
        return MDPDataset(
            observations=[
                network.context.expand(decisions.context),
                _padded(network.candidates, decisions),
                decisions.mask.astype(np.float32),
            ],
            actions=decisions.choice[:, None],
            rewards=decisions.reward.astype(np.float32)[:, None],
            terminals=decisions.terminated.astype(np.float32),
            action_size=CANDIDATES,
        )


def _padded(feature_map: Any, decisions: Decisions) -> Any:
    """Return network inputs (B, K, E), zero where the mask forbids a candidate."""
    expanded = np.zeros((*decisions.mask.shape, feature_map.size), np.float32)
    expanded[decisions.mask] = feature_map.expand(decisions.candidates[decisions.mask])
    return expanded


def quiet_fit(algorithm: Any, buffer: Any, steps: int) -> None:
    """Run d3rlpy's `fit` with its default sampler, without a progress bar or log files."""
    from d3rlpy.logging import NoopAdapterFactory

    with contextlib.redirect_stdout(io.StringIO()):
        algorithm.fit(
            buffer,
            n_steps=steps,
            n_steps_per_epoch=steps,
            logger_adapter=NoopAdapterFactory(),
            show_progress=False,
        )


def whole_loop(agent: str = "double_dqn", steps: int = 1000, rows: int = ROWS) -> float:
    """Return the gradient steps per second of a training as `hindcast train` runs it."""
    from policies.offline.fit import train_agent

    decisions = made_up(np.random.default_rng(0), rows)
    train_agent(agent, decisions, SPEC, steps=2, seed=0, validation=decisions)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        train_agent(
            agent, decisions, SPEC, steps=steps, seed=0, validation=decisions,
            resume=(Path(folder), "key"),
        )  # fmt: skip
        return steps / (time.perf_counter() - start)


def measure() -> list[tuple[str, float, str, str]]:
    """Return rows of (quantity, value, unit, comparison)."""
    rates = compare()
    return [
        ("training, own sampler + update", rates.own, "steps/s", "double DQN, 256 x 32"),
        ("training, d3rlpy's own fit", rates.d3rlpy_fit, "steps/s", "same data and network"),
        ("training, ratio", rates.ratio, "x", ""),
        ("training, whole loop", whole_loop(), "steps/s", "with curves and monitoring"),
    ]
