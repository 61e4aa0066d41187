"""Gradient steps per second: index gathering + update, against d3rlpy's own `fit`.

    python -m tests.benchmarks training

Both have the same made-up transitions, network and update, and differ in the source of a minibatch:
`fit` gets features that were expanded beforehand, ours expands every minibatch. The two take turns
on one thread of torch, and medians over the rounds are compared. The whole loop is ours with
everything around a step: curves, monitoring, and saved states to resume from.

On every device that torch finds, a single run and a stack of 64 agents (one program, see
hindcast.policies.offline.q_learning.double_dqn_stack) take turns with `fit` on that device. An
agent-update is a gradient step of one agent. Runs one after the other make as many as a single run
makes steps.
"""

import contextlib
import io
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.simulation.spec import Feature, Spec

MINIBATCH = 256
CANDIDATES = 32
ROWS = 20_000
EPISODE = 200  # decisions
STACK = 64  # agents at once
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

    from hindcast.policies.networks.candidate_scorer import fit_network
    from hindcast.policies.offline.q_learning.agents import DqnConfig
    from hindcast.policies.offline.q_learning.masked_q import create, d3rlpy_batch, update
    from hindcast.policies.training.devices import repeatable
    from hindcast.policies.training.minibatches import Batches, draw_rows
    from hindcast.policies.training.values import ValueUnit

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


def on_device(name: str, rounds: int = 7) -> dict[str, float]:
    """Return gradient steps per second on a device: a single run, a stack, and d3rlpy's `fit`.

    Steps are those of agents, so a step of the stack counts STACK times.
    """
    import torch

    from hindcast.policies.networks.candidate_scorer import fit_network
    from hindcast.policies.offline.q_learning.agents import DOUBLE_DQN, DqnConfig
    from hindcast.policies.offline.q_learning.masked_q import create
    from hindcast.policies.training.devices import repeatable
    from hindcast.policies.training.learner import Learner, Task

    from d3rlpy.algos import DoubleDQNConfig  # isort: skip

    device, config = torch.device(name), DqnConfig()
    decisions = made_up(np.random.default_rng(0))
    network = fit_network(decisions, SPEC, config.network)
    tasks = [Task(decisions, SPEC, 1, seed, None, device) for seed in range(STACK)]
    often, seldom = (30, 2) if name == "cpu" else (1000, 100)

    def steps(learner: Learner, count: int) -> Callable[[], int]:
        taken = 0

        def run() -> int:
            nonlocal taken
            for _ in range(count):
                taken += 1
                learner.step(taken)
            return count

        return run

    def fit() -> int:
        quiet_fit(algorithm, buffer, often)
        return often

    with repeatable(device):
        algorithm = create(
            lambda **parts: DoubleDQNConfig(batch_size=MINIBATCH, learning_rate=1e-3, **parts),
            network, CANDIDATES, seed=0, device=device,
        )  # fmt: skip
        buffer = d3rlpy_buffer(network, decisions)
        stacked = steps(DOUBLE_DQN.stack(tasks, [config] * STACK)[0], seldom)
        runs: dict[str, Callable[[], int]] = {
            "single": steps(DOUBLE_DQN.learner(tasks[0], config), often),
            "stack": lambda: STACK * stacked(),
            "fit": fit,
        }
        rates: dict[str, list[float]] = {what: [] for what in runs}
        for number in range(rounds + 1):
            for what, run in runs.items():
                start = time.perf_counter()
                done = run()
                if name != "cpu":
                    torch.cuda.synchronize()
                if number:  # the first round is for compilation and first allocations
                    rates[what].append(done / (time.perf_counter() - start))
    return {what: float(np.median(found)) for what, found in rates.items()}


def device_rows(name: str) -> list[tuple[str, float, str, str]]:
    """Return the rows of one device."""
    found = on_device(name)
    return [
        (f"double DQN on {name}, single run", found["single"], "updates/s", "256 x 32"),
        (f"double DQN on {name}, d3rlpy's fit", found["fit"], "updates/s", "same data and network"),
        (f"double DQN on {name}, ratio", found["single"] / found["fit"], "x", ""),
        (f"double DQN on {name}, {STACK} agents at once", found["stack"], "agent-updates/s", ""),
        (
            f"double DQN on {name}, at once / one after the other",
            found["stack"] / found["single"], "x", "",
        ),
    ]  # fmt: skip


def d3rlpy_buffer(network: Any, decisions: Decisions) -> Any:
    """Return the decisions as d3rlpy samples them, with features expanded beforehand."""
    from hindcast.policies.offline.q_learning import masked_q  # noqa: F401, I001  it keeps d3rlpy's import quiet
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
    from tests.policies.trainings import train_agent

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
    import torch

    rates = compare()
    devices = ["cpu", *["cuda"] * torch.cuda.is_available()]
    return [
        ("training, own sampler + update", rates.own, "steps/s", "double DQN, 256 x 32"),
        ("training, d3rlpy's own fit", rates.d3rlpy_fit, "steps/s", "same data and network"),
        ("training, ratio", rates.ratio, "x", ""),
        ("training, whole loop", whole_loop(), "steps/s", "with curves and monitoring"),
        *(row for name in devices for row in device_rows(name)),
    ]
