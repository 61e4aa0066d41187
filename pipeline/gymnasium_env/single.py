"""The windows of a recipe as a gymnasium.Env, one episode at a time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InfeasibleChoice
from hindcast.pipeline.gymnasium_env.problem import (
    INVALID_LIMIT,
    RENDER_MODES,
    RecipeProblem,
    check_options,
)
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.simulation.environment import CompiledEnvironment, Observation
from hindcast.pipeline.simulation.spec import Spec

Padded: TypeAlias = dict[str, NDArray[Any]]  # an observation
Transition: TypeAlias = tuple[Padded, SupportsFloat, bool, bool, dict[str, Any]]


class SchedulingEnv(gymnasium.Env[Padded, int]):
    """The windows of a recipe as episodes; each reset draws a window.

    The package's docstring describes observations, actions, infos and the order of the windows.

    Args:
        recipe: A recipe, the id of one that comes with Hindcast, the path of a recipe.toml, or the
            folder of a dataset.
        overrides: Values of the recipe to replace, each written `section.key=value`.
        split: The split whose windows are episodes, or "all" for every window.
        windows: Numbers of the windows, in place of `split`.
        candidates: K. If an observation has more candidates, its first K feasible ones are shown
            and info["cut_candidates"] is the number of the others. By default the largest number
            of candidates in the first windows, at most 128.
        strict: Whether an infeasible action raises InfeasibleChoice.
        render_mode: "rgb_array" for pictures, "ansi" for text, or None.
        scenario: Name that the recipe's scenario must have, or None for any.

    Raises:
        InputError: The recipe, the split, a window, `candidates` or `render_mode` cannot be used.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012  gymnasium's own convention

    def __init__(
        self,
        recipe: Recipe | Path | str | None = None,
        *,
        overrides: Sequence[str] = (),
        split: str = "train",
        windows: Sequence[int] | None = None,
        candidates: int | None = None,
        strict: bool = False,
        render_mode: str | None = None,
        scenario: str | None = None,
    ) -> None:
        self._problem = RecipeProblem(
            recipe, overrides=overrides, split=split, windows=windows, candidates=candidates,
            scenario=scenario, render_mode=render_mode,
        )  # fmt: skip
        problem = self._problem
        self._k, self._strict, self.render_mode = problem.candidates, strict, render_mode
        self.observation_space = problem.observation_space
        self.action_space = problem.action_space  # type: ignore[assignment]
        self._environment = CompiledEnvironment(
            problem.scenario, problem.recipe.config, problem.recipe.objective, problem.workload,
            problem.windows[0],
        )  # fmt: skip
        self._mask = np.zeros(self._k, np.bool_)
        self._invalid = 0
        self._window: int | None = None
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Padded, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seed of the generator that draws windows, for this reset and those after it. None
                goes on with the generator of the last reset.
            options: {"window": w} plays window w, which must be one of the environment's windows.

        Returns:
            The first observation, and an info that says which window it is.

        Raises:
            InputError: An option does not exist, or the window is not the environment's.
        """
        chosen = check_options(options)
        super().reset(seed=seed)
        window = self._problem.draw(self.np_random)
        if "window" in chosen:
            window = self._problem.named(chosen["window"])
        self._window, self._invalid, self._over = window, 0, False
        observation = self._environment.begin(self._problem.instance(window))
        padded = self._show(observation)
        return padded, {**self._info(observation), "window": window}

    def step(self, action: int) -> Transition:
        """Apply an action; return observation, reward, terminated, truncated and info.

        Raises:
            InfeasibleChoice: The action is no number of a row, the episode is over, or the action
                is infeasible and the environment is strict.
        """
        if self._over:
            raise InfeasibleChoice("no episode is in progress; call reset() first")
        if not 0 <= action < self._k:
            raise InfeasibleChoice(f"action {action} does not exist; actions are 0..{self._k - 1}")
        if not self._mask[action]:
            return self._refuse(action)
        self._invalid = 0
        step = self._environment.step(int(self._rows[action]))
        padded = self._show(step.observation)
        info = {**self._info(step.observation), "elapsed_s": step.elapsed_s}
        self._over = step.terminated or step.truncated
        if self._over:
            info["outcome"] = self._environment.outcome()
        return padded, step.reward, step.terminated, step.truncated, info

    @property
    def scenario_spec(self) -> Spec:
        """Names, units, ranges and scales of the features, in the order of their columns."""
        return self._problem.spec

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask (K,) of the current observation, under the name that agents look for."""
        return self._mask.copy()

    def render(self) -> Any:
        """Return a picture (H, W, 3) uint8, or text, of the last observation; None without a mode.

        Raises:
            InfeasibleChoice: There is no observation before the first reset.
        """
        from hindcast.pipeline.gymnasium_env.rendering import View, frame

        if self.render_mode is None:
            return None
        if self._window is None:
            raise InfeasibleChoice("there is nothing to render yet; call reset() first")
        problem = self._problem
        title = f"{problem.recipe.id}, window {self._window}"
        return frame(View(problem.spec, self._observation, title), self.render_mode)

    def _refuse(self, action: int) -> Transition:
        if self._strict:
            raise InfeasibleChoice(f"action {action} is not feasible; see info['action_mask']")
        self._invalid += 1
        self._over = self._invalid >= INVALID_LIMIT
        info = {**self._info(self._observation), "invalid_action": True}
        if self._over:
            info["outcome"] = self._environment.outcome()
        return self._show(self._observation), 0.0, False, self._over, info

    def _show(self, observation: Observation) -> Padded:
        """Return an observation padded to K, and keep it and its mask."""
        visible = np.arange(len(observation.feasible))
        if len(visible) > self._k:
            visible = np.flatnonzero(observation.feasible)[: self._k]
        n = len(visible)
        rows = np.zeros((self._k, observation.candidates.shape[1]), np.float32)
        rows[:n] = observation.candidates[visible]
        self._mask = np.zeros(self._k, np.bool_)
        self._mask[:n] = observation.feasible[visible]
        self._rows, self._observation = visible, observation
        padded: Padded = {
            "context": observation.context.astype(np.float32),
            "candidates": rows,
            "mask": self._mask.astype(np.int8),
        }
        if observation.image is not None:
            padded["image"] = observation.image.copy()
        return padded

    def _info(self, observation: Observation) -> dict[str, Any]:
        return {
            "action_mask": self._mask.copy(),
            "cut_candidates": len(observation.feasible) - len(self._rows),
        }
