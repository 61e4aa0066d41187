"""Speed of the Gymnasium environments on one core: many in one call, against one at a time."""

import time

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.gymnasium_env.single import SchedulingEnv
from hindcast.pipeline.gymnasium_env.vector import SchedulingVectorEnv

RECIPES = ("slots-deeprm-v1", "binpack-synthetic-v1")
ENVIRONMENTS = 256
ROUNDS = 5


def measure() -> list[tuple[str, float, str, str]]:
    """Return steps per second of processor time with random feasible actions, best of a few."""
    found = []
    for recipe in RECIPES:
        name, one = recipe.partition("-")[0], single(recipe, 2000)
        many = vector(recipe, 100)
        found += [
            (f"{name}: one environment", one, "steps/s", ""),
            (f"{name}: {ENVIRONMENTS} environments in one call", many, "steps/s",
             f"{many / one:.0f} x one environment"),
        ]  # fmt: skip
    return found


def vector(recipe: str, steps: int, environments: int = ENVIRONMENTS) -> float:
    """Return steps per second of all environments together, with the drawing of actions."""
    envs, rng, best = SchedulingVectorEnv(environments, recipe), np.random.default_rng(0), 0.0
    _, info = envs.reset(seed=0)
    for _ in range(ROUNDS):
        begin = time.thread_time()
        for _ in range(steps):
            *_, info = envs.step(_drawn(info["action_mask"], rng))
        best = max(best, steps * environments / (time.thread_time() - begin))
    return best


def single(recipe: str, steps: int) -> float:
    """Return steps per second of one environment, with the drawing of actions."""
    env, rng, best = SchedulingEnv(recipe), np.random.default_rng(0), 0.0
    _, info = env.reset(seed=0)
    for _ in range(ROUNDS):
        begin = time.thread_time()
        for _ in range(steps):
            action = _drawn(info["action_mask"][None], rng)[0]
            _, _, terminated, truncated, info = env.step(int(action))
            if terminated or truncated:
                _, info = env.reset()
        best = max(best, steps / (time.thread_time() - begin))
    return best


def _drawn(mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a feasible action per row of the masks, drawn uniformly."""
    return np.asarray((rng.random(mask.shape, np.float32) * mask).argmax(axis=1), np.int64)
