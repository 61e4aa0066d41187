"""A recipe as a gymnasium.Env: candidates padded to K rows, with a mask.

    observation   {"context": (C,), "candidates": (K, F), "mask": (K,)[, "image": ...]}
    action        Discrete(K)
    info          "action_mask" (K,) bool; "outcome" at the end of an episode; "invalid_action"
                  after an infeasible action

Gymnasium's own tools sample actions without the mask. By default an infeasible action therefore
does nothing: the reward is 0, no time passes, and `info["invalid_action"]` is True. An episode is
truncated after INVALID_LIMIT infeasible actions in a row. With `strict`, an infeasible action
raises InfeasibleChoice.
"""

from collections.abc import Sequence
from typing import Any, Final, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pipeline.errors import InfeasibleChoice
from pipeline.recipes.problem import make_instance
from pipeline.recipes.recipe import Recipe
from pipeline.recipes.workload_source import load_source
from pipeline.scenarios import load_scenario
from pipeline.simulation.environment import CompiledEnvironment, Observation
from pipeline.simulation.scenario import Instance

Shown: TypeAlias = dict[str, NDArray[Any]]  # an observation
Transition: TypeAlias = tuple[Shown, SupportsFloat, bool, bool, dict[str, Any]]
INVALID_LIMIT: Final = 1000  # consecutive infeasible actions
_MOST: Final = 128  # largest default of K
_LOOKED_AT: Final = 16  # number of windows that determine the default of K


class SchedulingEnv(gymnasium.Env[Shown, int]):
    """The windows of a recipe as episodes; each reset takes a random window.

    Args:
        recipe: The recipe to simulate.
        windows: Numbers of the windows. By default all windows of the recipe's train split.
        candidates: K. If an observation has more candidates, its first K feasible ones are shown
            and info["cut_candidates"] is the number of the others. By default the largest number
            of candidates in the first windows, at most 128.
        strict: Whether an infeasible action raises InfeasibleChoice.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  gymnasium's own convention

    def __init__(
        self,
        recipe: Recipe,
        *,
        windows: Sequence[int] | None = None,
        candidates: int | None = None,
        strict: bool = False,
    ) -> None:
        self._recipe = recipe
        self._windows = list(windows) if windows is not None else recipe.windows("train")
        self._strict = strict
        self._scenario = load_scenario(recipe.scenario)
        self._workload = load_source(recipe)
        if candidates is None:
            first = (self._instance(w).capacity for w in self._windows[:_LOOKED_AT])
            candidates = min(_MOST, max(first))
        self._k = candidates
        spec = self._scenario.spec(recipe.config, recipe.objective)
        self._environment = CompiledEnvironment(
            self._scenario, recipe.config, recipe.objective, self._workload, self._windows[0]
        )
        low, high = np.finfo(np.float32).min, np.finfo(np.float32).max
        fields: dict[str, spaces.Space[Any]] = {
            "context": spaces.Box(low, high, (len(spec.context),), np.float32),
            "candidates": spaces.Box(low, high, (candidates, len(spec.candidates)), np.float32),
            "mask": spaces.MultiBinary(candidates),
        }
        if spec.image_shape:
            fields["image"] = spaces.Box(0, 255, spec.image_shape, np.uint8)
        self.observation_space = spaces.Dict(fields)
        self.action_space = spaces.Discrete(candidates)  # type: ignore[assignment]
        self._mask = np.zeros(candidates, np.bool_)
        self._invalid = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Shown, dict[str, Any]]:
        """Begin an episode on a window drawn uniformly, or on options["window"]."""
        super().reset(seed=seed)
        drawn = self._windows[int(self.np_random.integers(len(self._windows)))]
        window = (options or {}).get("window", drawn)
        self._invalid = 0
        seen = self._environment.begin(self._instance(window))
        shown = self._show(seen)
        return shown, {**self._info(seen), "window": window}

    def step(self, action: int) -> Transition:
        """Apply an action; return observation, reward, terminated, truncated and info."""
        if not self._mask[action]:
            return self._refuse(action)
        self._invalid = 0
        step = self._environment.step(int(self._rows[action]))
        shown = self._show(step.observation)
        info = {**self._info(step.observation), "elapsed_s": step.elapsed_s}
        if step.terminated or step.truncated:
            info["outcome"] = self._environment.outcome()
        return shown, step.reward, step.terminated, step.truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask (K,) of the current observation, under the name that agents look for."""
        return self._mask.copy()

    def _instance(self, window: int) -> Instance:
        return make_instance(self._recipe, self._scenario, self._workload, window)

    def _refuse(self, action: int) -> Transition:
        if self._strict:
            raise InfeasibleChoice(f"action {action} is not feasible; see info['action_mask']")
        self._invalid += 1
        info = {**self._info(self._seen), "invalid_action": True}
        return self._show(self._seen), 0.0, False, self._invalid >= INVALID_LIMIT, info

    def _show(self, seen: Observation) -> Shown:
        """Return an observation padded to K, and keep it and its mask."""
        shown_rows = np.arange(len(seen.feasible))
        if len(shown_rows) > self._k:
            shown_rows = np.flatnonzero(seen.feasible)[: self._k]
        n = len(shown_rows)
        rows = np.zeros((self._k, seen.candidates.shape[1]), np.float32)
        rows[:n] = seen.candidates[shown_rows]
        self._mask = np.zeros(self._k, np.bool_)
        self._mask[:n] = seen.feasible[shown_rows]
        self._rows, self._seen = shown_rows, seen
        shown: Shown = {
            "context": seen.context.astype(np.float32),
            "candidates": rows,
            "mask": self._mask.astype(np.int8),
        }
        if seen.image is not None:
            shown["image"] = seen.image
        return shown

    def _info(self, seen: Observation) -> dict[str, Any]:
        return {
            "action_mask": self._mask.copy(),
            "cut_candidates": len(seen.feasible) - len(self._rows),
        }
