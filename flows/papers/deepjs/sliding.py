"""Cost of each window to an agent that slides over windows, before it is trained on the window.

    hindcast calibrate sliding RUN --recipe binpack-deepjs --policy first_fit --last 99

    window            0          1            2        ...       each is trained on for `stay`
    checkpoint    the start   step stay   step 2 stay  ...       iterations, after it was played
    row           window, step, policy, draws, value             of the headline metric

RUN is the folder of `hindcast train-online --checkpoint-every STAY`. The agent plays a window
greedily and, under the name <agent>@1, draws its choices as in training; the rules named on the
command line play the same windows. Source: Li & Hu, "DeepJS", ICBDC 2019, section 4.2 and Figure 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.commands.report import rows_of
from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import plays_episodes, run_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.run_files import step_folder
from hindcast.policies.networks.checkpoint import load_policy, read_description
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.online.problem import Sampling
from hindcast.policies.registry import resolve
from hindcast.policies.rollouts.trajectories import sample_trajectory

_DRAWS: Final = 12
COLUMNS: Final = ("window", "step", "policy", "draws", "value")


@dataclass(frozen=True)
class Stretch:
    """Window with the checkpoint before the training on it.

    Attributes:
        window: Number of the window.
        step: Iterations before the training on the window.
        checkpoint: Folder of the checkpoint after these iterations.
    """

    window: int
    step: int
    checkpoint: Path


def stretches(run: Path, recipe: Recipe, last: int | None = None) -> list[Stretch]:
    """Return the windows in the order of training, up to window `last` or the end of the training.

    The first window is left out, since no checkpoint precedes it. Raises DatasetError if a
    checkpoint is missing, and RecipeError if the training played several windows at once.
    """
    sampling, steps = _trained(run)
    if sampling.windows != 1:
        raise RecipeError(f"{run}: played {sampling.windows} windows at once, expected 1")
    found = []
    for number, window in enumerate(recipe.windows("train")):
        step = number * sampling.stay
        if step >= steps or (last is not None and window > last):
            break
        if not number:
            continue
        folder = step_folder(run, step)
        if not folder.exists():
            raise DatasetError(
                f"{folder}: no such checkpoint; train with --checkpoint-every {sampling.stay}"
            )
        found.append(Stretch(window, step, folder))
    if not found:
        raise DatasetError(f"{run}: no window was played after the training on the first one")
    return found


def _trained(run: Path) -> tuple[Sampling, int]:
    """Return the sampling of a run and its number of iterations.

    Raises DatasetError if the folder is not that of an online training.
    """
    training: Any = read_description(run).get("training")
    try:
        settings, steps = training["config"]["sampling"], training["steps"]
    except (KeyError, TypeError) as error:
        raise DatasetError(f"{run}: is not a training of `hindcast train-online`") from error
    if type(steps) is not int:
        raise DatasetError(f"{run}: steps is {steps!r}, expected a whole number")
    return read_settings(Sampling, settings, f"{run}: sampling"), steps


def slide(
    run: Path,
    recipe: Recipe,
    rules: Sequence[Behaviour] = (),
    *,
    last: int | None = None,
    draws: int = _DRAWS,
) -> pl.DataFrame:
    """Return a table with COLUMNS of the agent, greedy and drawing, and of rules.

    It has a row for every window after the first and every policy. The values of policies that draw
    are means over `draws` episodes. Raises the errors of `stretches`.
    """
    scenario, workload = load_scenario(recipe.scenario), load_source(recipe)
    spec = scenario.spec(recipe.config, recipe.objective)
    rows: list[tuple[int, int, str, int, float]] = []
    for one in stretches(run, recipe, last):
        instance = make_instance(recipe, scenario, workload, one.window)
        agent = load_policy(one.checkpoint)
        agent.check(spec)
        greedy, drawing = Behaviour(agent.name, agent), Behaviour(f"{agent.name}@1", agent, 0.0, 1)
        for behaviour in (greedy, drawing, *rules):
            count = draws if behaviour.stochastic else 1
            values = [
                _played(
                    scenario, spec, instance, behaviour,
                    generator(recipe.seed, f"slide {behaviour.name}", one.window, i),
                )
                for i in range(count)
            ]  # fmt: skip
            rows.append((one.window, one.step, behaviour.name, count, float(np.mean(values))))
    return pl.DataFrame(rows, schema=list(COLUMNS), orient="row")


def _played(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    behaviour: Behaviour,
    rng: np.random.Generator,
) -> float:
    """Return the headline outcome of one episode."""
    if plays_episodes(behaviour):
        return float(run_episode(scenario, spec, instance, behaviour, rng).outcomes[0])
    policy: LearnedPolicy = behaviour.policy
    played = sample_trajectory(scenario, spec, instance, policy, rng, behaviour.temperature)
    return float(played.episode.outcomes[0])


def table(request: Any) -> dict[str, Any]:
    """Return the lines and rows of `hindcast calibrate sliding`."""
    recipe = load_recipe(request.recipe, request.overrides)
    spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
    rules = [resolve(name, recipe.scenario, spec) for name in request.policies]
    return rows_of(slide(location(request.folders[0]), recipe, rules, last=request.last))
