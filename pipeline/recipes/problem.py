"""Problem instances of a recipe and its workload."""

from pipeline.recipes.recipe import Recipe
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.seeds import generator
from pipeline.workloads.schema import Workload


def make_instance(recipe: Recipe, scenario: Scenario, workload: Workload, window: int) -> Instance:
    """Return the problem instance of a window, which is the same for every policy."""
    rng = generator(recipe.seed, "instance", window)
    return scenario.instance(recipe.config, recipe.objective, workload, window, rng)
