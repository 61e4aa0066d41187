"""Tiny scheduling problems whose best policy is known, as logged decisions.

Logs are drawn once a session; tests build separate arrays from them.
"""

from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec

K = 6

SPEC = Spec(
    scenario="toy",
    objective="gain",
    context=(
        Feature("stage", "index", 0, 1, "which decision of the episode"),
        Feature("load", "jobs", 0, np.inf, "says nothing", heavy_tailed=True),
    ),
    candidates=(
        Feature("row", "index", 0, K, "where it stands", identifier=True),
        Feature("gain", "units", -3, 3, "what choosing it pays"),
        Feature("door", "yes/no", 0, 1, "whether it leads to the better second stage"),
        Feature("size", "units", 0, np.inf, "says nothing", heavy_tailed=True, scale=10.0),
    ),
    reward_terms=(),
    outcomes=(Outcome("cost", "units", "minus the return"),),
)


@dataclass
class Log:
    """Decisions gathered one by one; `build` pads them."""

    rows: list[dict] = field(default_factory=list)
    episodes: list[dict] = field(default_factory=list)

    def episode(self, window: int, decisions: list[dict], noise: float = 0.0) -> None:
        """Append an episode; a decision has context, candidates, choice, reward."""
        total = sum(d["reward"] for d in decisions) + noise
        at = len(self.episodes)
        for step, decision in enumerate(decisions):
            after = decisions[step + 1] if step + 1 < len(decisions) else None
            self.rows.append({**decision, "episode": at, "step": step, "after": after})
        self.episodes.append(
            {"episode": at, "split": "train", "behaviour": "random", "seed": 0, "window": window,
             "steps": len(decisions), "return": total, "cost": -total}
        )  # fmt: skip

    def build(self, k: int = K, drawn: int = 0) -> Decisions:
        """Return the Decisions, padded with zeros to `k` candidates."""
        n = len(self.rows)
        context, candidates, mask = _pad(self.rows, k)
        next_context, next_candidates, next_mask = _pad([r["after"] for r in self.rows], k)
        column = lambda name: np.array([r[name] for r in self.rows])  # noqa: E731
        return Decisions(
            context=context,
            candidates=candidates,
            mask=mask,
            drawn=np.full(n, drawn) if drawn else mask.sum(axis=1),
            choice=column("choice"),
            propensity=(1.0 / mask.sum(axis=1)).astype(np.float32),
            reward=column("reward").astype(np.float64),
            elapsed_s=np.ones(n),
            terminated=np.array([r["after"] is None for r in self.rows]),
            episode=column("episode"),
            step=column("step"),
            episodes=pl.DataFrame(self.episodes),
            next_context=next_context,
            next_candidates=next_candidates,
            next_mask=next_mask,
            probabilities=(mask / mask.sum(axis=1, keepdims=True)).astype(np.float32),
        )


def _pad(observations, k):
    n = len(observations)
    context = np.zeros((n, len(SPEC.context)), np.float32)
    candidates = np.zeros((n, k, len(SPEC.candidates)), np.float32)
    mask = np.zeros((n, k), bool)
    for i, observation in enumerate(observations):
        if observation is not None:
            rows = observation["candidates"]
            context[i] = observation["context"]
            candidates[i, : len(rows)] = rows
            mask[i, : len(rows)] = True
    return context, candidates, mask


def some_candidates(rng, n=None):
    """Return (N, F) candidates, of which only the gain matters."""
    n = n or int(rng.integers(2, K + 1))
    return np.column_stack(
        [np.arange(n), rng.normal(size=n), rng.integers(0, 2, n), rng.lognormal(3.0, 1.0, n)]
    )


def some_context(rng, stage=0.0):
    return np.array([stage, rng.lognormal(3.0, 1.0)])


@pytest.fixture
def spec():
    return SPEC


@pytest.fixture(scope="session")
def bandit():
    """Return episodes of one random choice whose reward is the gain of the chosen candidate."""
    rng = np.random.default_rng(5)
    log = Log()
    for window in range(1500):
        candidates = some_candidates(rng)
        choice = int(rng.integers(len(candidates)))
        log.episode(
            window,
            [{"context": some_context(rng), "candidates": candidates, "choice": choice,
              "reward": candidates[choice, 1]}],
        )  # fmt: skip
    return log


@pytest.fixture(scope="session")
def imitated():
    """Return decisions that take the largest gain, except for one in five."""
    rng = np.random.default_rng(6)
    log = Log()
    for window in range(800):
        candidates = some_candidates(rng)
        best = int(candidates[:, 1].argmax())
        choice = best if rng.random() < 0.8 else int(rng.integers(len(candidates)))
        log.episode(
            window,
            [{"context": some_context(rng), "candidates": candidates, "choice": choice,
              "reward": 0.0}],
        )  # fmt: skip
    return log


@pytest.fixture(scope="session")
def two_stages():
    """Return two stages in which the larger gain now misses the door to more gain later.

    stage 0   candidates (gain 1, no door), (gain 0, door)
    stage 1   behind the door gains 3 and 0; without it .5 and 0
    """
    rng = np.random.default_rng(7)
    log = Log()
    for window in range(400):
        first = np.array([[0, 1.0, 0, rng.lognormal(3)], [1, 0.0, 1, rng.lognormal(3)]])
        door = int(rng.integers(2))
        gains = np.array([3.0, 0.0]) if door else np.array([0.5, 0.0])
        second = np.column_stack([[0, 1], gains, [0, 0], rng.lognormal(3, 1, 2)])
        later = int(rng.integers(2))
        log.episode(
            window,
            [
                {"context": some_context(rng, 0.0), "candidates": first, "choice": door,
                 "reward": first[door, 1]},
                {"context": some_context(rng, 1.0), "candidates": second, "choice": later,
                 "reward": gains[later]},
            ],
        )  # fmt: skip
    return log


@pytest.fixture(scope="session")
def noisy_episodes():
    """Return episodes of ten choices by priorities drawn per episode, with noisy returns."""
    rng = np.random.default_rng(8)
    log = Log()
    for window in range(30):
        for _ in range(6):
            weights = rng.normal(size=3)
            decisions = []
            for _ in range(10):
                candidates = some_candidates(rng)
                features = candidates[:, 1:] * [1.0, 1.0, 0.05]
                choice = int((features @ weights).argmax())
                decisions.append(
                    {"context": some_context(rng), "candidates": candidates, "choice": choice,
                     "reward": candidates[choice, 1]}
                )  # fmt: skip
            log.episode(window, decisions, noise=2.0 * rng.normal())
    return log


@pytest.fixture
def share_of_best(spec):
    """Return the share of decisions in which a policy's first choice has the largest gain."""

    def share(policy):
        rng = np.random.default_rng(99)
        hits = 0
        for _ in range(300):
            candidates = some_candidates(rng)
            context = some_context(rng)[None]
            scores = policy.batch_scores(context, candidates, np.array([0, len(candidates)]))
            hits += int(scores.argmax() == candidates[:, 1].argmax())
        return hits / 300

    return share
