"""Gradient steps per second of every offline agent, against d3rlpy's own `fit` of double DQN.

    python -m tests.benchmarks agents

Each agent has its default settings and the made-up decisions of `tests.benchmarks.training`, with
K = 32 and one thread. Drawing the minibatch is included (256 decisions; agents that compare
episodes draw 1,920 or more). All agents take turns and medians over the rounds are compared, so
that a busy machine slows all of them alike. An agent that is solved in its first step is left out.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from hindcast.pipeline.dataset.decisions import Decisions
from tests.benchmarks.training import (
    CANDIDATES,
    MINIBATCH,
    ROWS,
    SPEC,
    d3rlpy_buffer,
    made_up,
    quiet_fit,
)

FIT: Final = "d3rlpy's fit of double_dqn"


def rates(names: list[str], rounds: int = 7, steps: int = 20, rows: int = ROWS) -> dict[str, float]:
    """Return the median steps per second of these agents and, under FIT, of d3rlpy."""
    import torch

    from hindcast.policies.training.devices import repeatable

    decisions = made_up(np.random.default_rng(0), rows)
    cpu = torch.device("cpu")
    runs = {FIT: _fit(decisions, steps)}
    for name in names:
        run = _agent(name, decisions, steps, cpu)
        if run is not None:
            runs[name] = run
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    with repeatable(cpu):
        for turn in range(rounds + 1):
            for name, run in runs.items():
                start = time.perf_counter()
                run()
                if turn:  # the first round is for compilation and first allocations
                    seconds[name].append(time.perf_counter() - start)
    return {name: steps / float(np.median(taken)) for name, taken in seconds.items()}


def _agent(name: str, decisions: Decisions, steps: int, device: Any) -> Callable[[], None] | None:
    """Run `steps` steps of an agent. Return None if the agent is solved in fewer."""
    from hindcast.policies.offline import AGENTS
    from hindcast.policies.training.learner import Task

    agent = AGENTS[name].implementation()
    learner = agent.learner(Task(decisions, SPEC, 10**6, 0, device=device), agent.Config())
    if learner.most_steps is not None:
        return None
    done = 0

    def run() -> None:
        nonlocal done
        for _ in range(steps):
            done += 1
            learner.step(done)

    return run


def _fit(decisions: Decisions, steps: int) -> Callable[[], None]:
    from hindcast.policies.networks.candidate_scorer import fit_network
    from hindcast.policies.offline.q_learning.agents import DqnConfig
    from hindcast.policies.offline.q_learning.masked_q import create

    from d3rlpy.algos import DoubleDQNConfig  # isort: skip

    network = fit_network(decisions, SPEC, DqnConfig().network)
    algorithm = create(
        lambda **parts: DoubleDQNConfig(batch_size=MINIBATCH, learning_rate=1e-3, **parts),
        network, CANDIDATES, seed=0,
    )  # fmt: skip
    buffer = d3rlpy_buffer(network, decisions)
    return lambda: quiet_fit(algorithm, buffer, steps)


def measure() -> list[tuple[str, float, str, str]]:
    """Return rows of (quantity, value, unit, comparison)."""
    from hindcast.policies.offline import anywhere

    found = rates(list(anywhere()))
    fit = found.pop(FIT)
    return [
        (f"training, {FIT}", fit, "steps/s", "minibatch 256, K 32"),
        *(
            (f"training, {name}", rate, "steps/s", f"{rate / fit:.2f} x d3rlpy's fit")
            for name, rate in found.items()
        ),
    ]
