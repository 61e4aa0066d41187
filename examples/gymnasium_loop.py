"""The simulator as a gymnasium.Env, stepped by hand.

    python examples/gymnasium_loop.py [OUT [SECTION.KEY=VALUE ...]]

Candidates are padded to K rows and the mask says which of them may be chosen. The loop below plays
the rule "longest task first" in Python; `hindcast.evaluate` plays the same rule in compiled code,
on the same window. Both makespans are printed, and they are equal.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import hindcast

RECIPE = "binpack-synthetic-v1"
DURATION_S = 4  # column of observation["candidates"], see the page of the scenario `binpack`


def main(out: Path, overrides: Sequence[str] = ()) -> tuple[float, float]:
    """Return the makespan of one window, from the loop in Python and from `evaluate`."""
    recipe = hindcast.load_recipe(RECIPE, (*overrides, 'split.test="100..100"', "evaluate.seeds=1"))
    env = hindcast.make_env(recipe, split="test", strict=True)
    print(f"observation: {env.observation_space}")
    print(f"action:      {env.action_space}")

    observation, info = env.reset(seed=0)
    print(f"window {info['window']}: {info['action_mask'].sum()} candidates at first")
    total, decisions, done = 0.0, 0, False
    while not done:
        longest = np.where(info["action_mask"], observation["candidates"][:, DURATION_S], -np.inf)
        observation, reward, terminated, truncated, info = env.step(int(longest.argmax()))
        assert info["cut_candidates"] == 0, "K is too small: make_env(..., candidates=K)"
        total += float(reward)
        decisions += 1
        done = terminated or truncated
    makespan = info["outcome"]["makespan_s"]
    print(f"{decisions:,} decisions, return {total:.2f}, makespan {makespan:.2f} s")

    means = hindcast.evaluate(recipe, ["longest_first"], out=out / "evaluation").means
    print(f"hindcast.evaluate: longest_first, makespan {means['longest_first']:.2f} s")
    return makespan, means["longest_first"]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/gymnasium_loop"), sys.argv[2:])
