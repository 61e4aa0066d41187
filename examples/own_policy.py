"""A scheduler of your own in Python, scored beside the rules that come with Hindcast.

    python examples/own_policy.py [OUT [SECTION.KEY=VALUE ...]]

A policy has a name and gives every candidate a score; the best-scored candidate that is feasible is
taken. It sees what every policy sees: the columns of `spec.candidates`, by position.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hindcast

RECIPE = "binpack-synthetic-v1"


class LargestInstance:
    """The task with the largest instances (cores x seconds) goes first, on the first machine."""

    name = "largest_instance"

    def __init__(self, spec: hindcast.Spec) -> None:
        names = [feature.name for feature in spec.candidates]
        self._columns = [names.index(name) for name in ("cores", "duration_s")]

    def scores(self, observation: Any) -> NDArray[np.float64]:
        """Return one score per candidate, shape (N,); higher is better."""
        found: NDArray[np.float64] = observation.candidates[:, self._columns].prod(axis=1)
        return found


def main(out: Path, overrides: Sequence[str] = ()) -> Mapping[str, float]:
    """Return the mean makespan of every policy, in seconds."""
    recipe = hindcast.load_recipe(RECIPE, overrides)
    # One window is recorded to learn the names of the columns; a dataset that you have will do.
    one = ('split.train="0..0"', 'split.validation="1..1"', 'split.test="2..2"')
    spec = hindcast.build(RECIPE, out / "columns", overrides=(*overrides, *one)).spec
    for feature in spec.candidates:
        print(f"  {feature.name:<14}{feature.unit:<12}{feature.description}")

    policy = LargestInstance(spec)
    hindcast.testing.check_policy(policy, recipe)
    others = ["random", "first_fit", "longest_first"]
    means = hindcast.evaluate(recipe, [*others, policy], out=out / "evaluation").means
    for name, seconds in means.items():
        print(f"{name:<18}{seconds:10.2f} s")
    return means


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/own_policy"), sys.argv[2:])
