"""Windows, problem instances and spaces, which the environments of a recipe share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, did_you_mean
from hindcast.pipeline.recipes.loading import as_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.simulation.spec import Feature, Spec

INVALID_LIMIT: Final = 1000  # consecutive infeasible actions
RENDER_MODES: Final = ("rgb_array", "ansi")
_MOST: Final = 128  # largest default of K
_SAMPLED: Final = 16  # number of windows that determine the default of K
_CACHE_BYTES: Final = 256 << 20  # of instances


class RecipeProblem:
    """The windows of a recipe as problem instances, and the spaces of their observations.

    Args:
        recipe: A recipe, the id of one that comes with Hindcast, the path of a recipe.toml, or the
            folder of a dataset.
        overrides: Values of the recipe to replace, each written `section.key=value`.
        split: The split whose windows are played, or "all".
        windows: Numbers of the windows, in place of `split`.
        candidates: K. By default the largest number of candidates in the first windows, at most
            128.
        scenario: Name that the recipe's scenario must have, or None.
        render_mode: "rgb_array", "ansi" or None.

    Raises:
        InputError: The recipe, the split, a window, `candidates` or `render_mode` cannot be used.
    """

    def __init__(
        self,
        recipe: Recipe | Path | str | None,
        *,
        overrides: Sequence[str],
        split: str,
        windows: Sequence[int] | None,
        candidates: int | None,
        scenario: str | None,
        render_mode: str | None,
    ) -> None:
        self.recipe = _loaded(recipe, overrides)
        _check(self.recipe, candidates, scenario, render_mode)
        self.windows = list(windows) if windows is not None else self.recipe.windows(split)
        if not self.windows:
            raise InputError(f"recipe {self.recipe.id}: there is no window to play, expected one")
        self.scenario = load_scenario(self.recipe.scenario)
        self.spec = self.scenario.spec(self.recipe.config, self.recipe.objective)
        self.workload = load_source(self.recipe)
        self._allowed = frozenset(self.windows)
        self._cache: dict[int, Instance] = {}
        self._cached_bytes = 0
        if candidates is None:
            first = (self.instance(w).capacity for w in self.windows[:_SAMPLED])
            candidates = min(_MOST, max(first))
        self.candidates = candidates
        self.observation_space = observation_space(self.spec, candidates)
        self.action_space = spaces.Discrete(candidates)

    def instance(self, window: int) -> Instance:
        """Return the instance of a window. Instances are kept as long as there is room."""
        instance = self._cache.get(window)
        if instance is None:
            instance = make_instance(self.recipe, self.scenario, self.workload, window)
            self._cached_bytes += instance.ints.nbytes + instance.floats.nbytes
            if self._cached_bytes <= _CACHE_BYTES:
                self._cache[window] = instance
        return instance

    def draw(self, rng: np.random.Generator) -> int:
        """Return a window drawn uniformly."""
        return self.windows[int(rng.integers(len(self.windows)))]

    def named(self, window: Any) -> int:
        """Return the window that an option of `reset` names. Raises InputError for any other."""
        if isinstance(window, int | np.integer) and int(window) in self._allowed:
            return int(window)
        raise InputError(
            f"options['window'] is {window!r}, expected one of the {len(self.windows)} windows of "
            f"this environment, {min(self.windows)}..{max(self.windows)}; the argument `split` or "
            "`windows` says which they are"
        )


def check_options(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the options of `reset`. Raises InputError for an option that does not exist."""
    for name in options or {}:
        if name != "window":
            raise InputError(
                f"reset() has no option {name!r}; {did_you_mean(str(name), ['window'])}"
            )
    return options or {}


def observation_space(spec: Spec, k: int) -> spaces.Dict:
    """Return the space of observations with `k` candidates; its bounds are the spec's ranges."""
    low, high = _ranges(spec.candidates)
    low, high = np.minimum(low, 0), np.maximum(high, 0)  # rows of padding are zero
    fields: dict[str, spaces.Space[Any]] = {
        "context": spaces.Box(*_ranges(spec.context), dtype=np.float32),
        "candidates": spaces.Box(np.tile(low, (k, 1)), np.tile(high, (k, 1)), dtype=np.float32),
        "mask": spaces.MultiBinary(k),
    }
    if spec.image_shape:
        fields["image"] = spaces.Box(0, 255, spec.image_shape, np.uint8)
    return spaces.Dict(fields)


def _ranges(features: Sequence[Feature]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the lowest and highest values of features. Rounding to float32 keeps their order."""
    with np.errstate(over="ignore"):  # beyond the largest float32 there is no limit
        low = np.array([f.low for f in features], np.float32)
        return low, np.array([f.high for f in features], np.float32)


def _loaded(recipe: Recipe | Path | str | None, overrides: Sequence[str]) -> Recipe:
    if recipe is None:
        raise InputError(
            'the environment needs a recipe: recipe="slots-deeprm-v1", the path of a recipe.toml '
            "or the folder of a dataset"
        )
    return as_recipe(recipe, overrides)


def _check(
    recipe: Recipe, candidates: int | None, scenario: str | None, render_mode: str | None
) -> None:
    if scenario is not None and recipe.scenario != scenario:
        raise InputError(
            f"recipe {recipe.id} has the scenario {recipe.scenario!r}, expected {scenario!r}; "
            "hindcast/Recipe-v0 takes a recipe of any scenario"
        )
    if candidates is not None and candidates < 1:
        raise InputError(f"candidates is {candidates}, expected at least 1")
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise InputError(
            f"unknown render_mode {render_mode!r}; {did_you_mean(render_mode, RENDER_MODES)}"
        )
