"""From a recipe and a workload to a problem instance."""

from pipeline.recipes.recipe import Recipe
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.seeds import generator
from pipeline.workloads.schema import Workload


def make_instance(recipe: Recipe, scenario: Scenario, workload: Workload, window: int) -> Instance:
    """The problem instance of a window: the same for every policy that meets it."""
    rng = generator(recipe.seed, "instance", window)
    return scenario.instance(recipe.config, recipe.objective, workload, window, rng)
