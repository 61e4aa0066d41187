"""An estimate of what a rule would cost, from the log of another policy, by importance sampling.

    python examples/off_policy_evaluation.py [OUT [SECTION.KEY=VALUE ...]]

The log is of uniformly random choices in the scenario of toy_scenario.py, with four jobs. The rule
is `shortest_first`, which is not in the log. Every logged decision has its propensity, so an
episode of T decisions gets the weight

    w = prod over t of  pi(choice_t) / propensity_t ,    pi(choice) = 1 if the rule makes it, else 0

and the estimates are   IS = mean(w G),   SNIS = sum(w G) / sum(w),   with ESS = sum(w)^2 / sum(w^2)
episodes that count. The simulator says what the rule really costs on the same windows. Real
episodes have hundreds of decisions; for those see `hindcast ope`, which has better estimators.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import toy_scenario  # noqa: F401 - registers the scenario `toy`

import hindcast

RECIPE = Path(__file__).parent / "toy" / "recipe.toml"
RANDOM = ("config.jobs=4", 'behaviours=[{policy="random", episodes=100}]')


def weight(episode: Any, length: int) -> float:
    """Return the importance weight of one episode for the rule `shortest_first`."""
    product = 1.0
    for step in range(len(episode)):
        rows = episode.candidates_of(step)
        product *= (episode.choice[step] == rows[:, length].argmin()) / episode.propensity[step]
    return float(product)


def main(out: Path, overrides: Sequence[str] = ()) -> dict[str, float]:
    """Return the estimates of the mean return, and the true one."""
    recipe = hindcast.load_recipe(RECIPE, (*RANDOM, *overrides))
    dataset = hindcast.build(recipe, out / "dataset")
    length = [feature.name for feature in dataset.spec.candidates].index("length")
    episodes = list(dataset.iter_episodes("train"))
    returns = np.array([episode.reward.sum() for episode in episodes])
    weights = np.array([weight(episode, length) for episode in episodes])

    truth = hindcast.evaluate(recipe, ["shortest_first"], out=out / "truth", split="train").means
    found = {
        "logged": float(returns.mean()),
        "IS": float(np.mean(weights * returns)),
        "SNIS": float(np.sum(weights * returns) / np.sum(weights)),
        "true": -truth["shortest_first"],  # the return is minus the cost
    }
    ess = np.sum(weights) ** 2 / np.sum(weights**2)
    print(f"{len(episodes):,} logged episodes, effective sample size {ess:.1f}")
    for name, value in found.items():
        print(f"{name:<8}{value:10.2f}")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/off_policy_evaluation"), sys.argv[2:])
