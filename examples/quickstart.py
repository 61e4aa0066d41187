"""From a synthetic workload to a trained scheduler and its score, in one function.

    python examples/quickstart.py [OUT [SECTION.KEY=VALUE ...]]

Five steps: record decisions of simple rules, verify the recording, train an agent on it, score the
agent and the rules on windows that the agent has not seen, print the means. Words after OUT replace
values of the recipe: `train.steps=200` trains for less time. The command line does the same with
`hindcast run binpack-synthetic-v1 --out OUT`, and writes a report.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import hindcast

RECIPE = "binpack-synthetic-v1"
RULES = ["random", "first_fit", "tetris", "longest_first", "longest_spread"]


def main(out: Path, overrides: Sequence[str] = ()) -> Mapping[str, float]:
    """Return the mean makespan of every policy, in seconds."""
    recipe = hindcast.load_recipe(RECIPE, overrides)
    dataset = hindcast.build(recipe, out / "dataset", workers=2)
    episodes = dataset.episodes()
    print(f"{episodes.height:,} episodes, {episodes['steps'].sum():,} decisions")

    checks = hindcast.verify(dataset).checks
    print(f"verified: {', '.join(name for name, _ in checks)}")

    agent = hindcast.train(
        dataset, "trajectory_preference", out=out / "agent", steps=recipe.train.steps
    )
    result = hindcast.evaluate(recipe, [*RULES, agent], out=out / "evaluation", workers=2)
    print(f"mean makespan on {len(recipe.windows('test'))} test windows, best first:")
    for policy, seconds in sorted(result.means.items(), key=lambda item: item[1]):
        print(f"  {policy:<30}{seconds:10.2f} s")
    return result.means


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/quickstart"), sys.argv[2:])
