"""The windows of a recipe as a gymnasium.vector.VectorEnv: many episodes in one compiled call."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from hindcast.pipeline.errors import HindcastError, InfeasibleChoice, InputError
from hindcast.pipeline.gymnasium_env.batch import EpisodeBatch
from hindcast.pipeline.gymnasium_env.problem import (
    INVALID_LIMIT,
    RENDER_MODES,
    RecipeProblem,
    check_options,
)
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.spec import Spec

Padded: TypeAlias = dict[str, NDArray[Any]]  # observations of all environments
Info: TypeAlias = dict[str, Any]
_MODES = getattr(gymnasium.vector, "AutoresetMode", None)  # since Gymnasium 1.1


class SchedulingVectorEnv(VectorEnv[Padded, ArrayLike, NDArray[Any]]):
    """`num_envs` environments whose states are rows of arrays, stepped by one compiled call.

    Each of them gives the same observations, rewards and infos as a SchedulingEnv with its seed and
    its actions. An array of an info belongs to the environments in which the mask `_NAME` is true,
    as in all vector environments of Gymnasium.

    Environments are reset as in Gymnasium's AutoresetMode.NEXT_STEP: the step that ends an episode
    returns its last observation and its outcome. The next step ignores the action of that
    environment, begins its next episode, and returns the first observation with a reward of 0.

    Args:
        num_envs: Number of environments, at least 1.
        recipe: A recipe, the id of one that comes with Hindcast, the path of a recipe.toml, or the
            folder of a dataset.
        overrides: Values of the recipe to replace, each written `section.key=value`.
        split: The split whose windows are episodes, or "all" for every window.
        windows: Numbers of the windows, in place of `split`.
        candidates: K, see SchedulingEnv.
        strict: Whether an infeasible action raises InfeasibleChoice.
        copy: Whether observations and masks are copies. If False, they are views that the next step
            changes.
        render_mode: "rgb_array" for pictures, "ansi" for text, or None.
        scenario: Name that the recipe's scenario must have, or None for any.

    Raises:
        InputError: `num_envs`, the recipe, the split, a window, `candidates` or `render_mode`
            cannot be used.
    """

    metadata = {  # noqa: RUF012  gymnasium's own convention
        "render_modes": list(RENDER_MODES),
        "render_fps": 4,
        **({"autoreset_mode": _MODES.NEXT_STEP} if _MODES else {}),
    }

    def __init__(
        self,
        num_envs: int = 1,
        recipe: Recipe | Path | str | None = None,
        *,
        overrides: Sequence[str] = (),
        split: str = "train",
        windows: Sequence[int] | None = None,
        candidates: int | None = None,
        strict: bool = False,
        copy: bool = True,
        render_mode: str | None = None,
        scenario: str | None = None,
    ) -> None:
        if num_envs < 1:
            raise InputError(f"num_envs is {num_envs}, expected at least 1")
        self._problem = RecipeProblem(
            recipe, overrides=overrides, split=split, windows=windows, candidates=candidates,
            scenario=scenario, render_mode=render_mode,
        )  # fmt: skip
        problem = self._problem
        self.num_envs, self._strict, self._copy = num_envs, strict, copy
        self.render_mode = render_mode
        self.single_observation_space = problem.observation_space
        self.single_action_space = problem.action_space
        self.observation_space = batch_space(problem.observation_space, num_envs)
        self.action_space = batch_space(problem.action_space, num_envs)
        self._batch = EpisodeBatch(
            problem.scenario, problem.spec, num_envs, problem.candidates, INVALID_LIMIT
        )
        self._each = np.arange(num_envs)
        self._window = np.zeros(num_envs, np.int64)
        self._generators: list[np.random.Generator] = []

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Padded, Info]:
        """Begin an episode in every environment.

        Args:
            seed: Seed of the first environment; environment i has `seed + i`. A sequence has one
                seed per environment. None goes on with the generators of the last reset.
            options: {"window": w} plays window w in all environments, or one window each if w is a
                sequence.

        Returns:
            The first observations, and an info with their windows.

        Raises:
            InputError: There are not as many seeds or windows as environments, an option does not
                exist, or a window is not the environment's.
        """
        chosen = check_options(options)
        self._seed(seed)
        windows = self._named(chosen["window"]) if "window" in chosen else [None] * self.num_envs
        for e, window in enumerate(windows):
            drawn = self._problem.draw(self._generators[e])
            self._begin(e, drawn if window is None else window)
        return self._advance(np.zeros(self.num_envs, np.int64))

    def step(
        self, actions: ArrayLike
    ) -> tuple[Padded, NDArray[Any], NDArray[Any], NDArray[Any], Info]:
        """Apply an action (num_envs,) to every environment; begin those whose episode was over.

        Raises:
            InfeasibleChoice: No episode has begun, an action is no number of a row, or an action is
                infeasible and the environments are strict.
        """
        if not self._generators:
            raise InfeasibleChoice("no episode is in progress; call reset() first")
        batch = self._batch
        choices = np.ascontiguousarray(actions, np.int64)
        if choices.shape != (self.num_envs,):
            raise InfeasibleChoice(
                f"the actions have the shape {choices.shape}, expected ({self.num_envs},)"
            )
        if choices.min() < 0 or choices.max() >= self._problem.candidates:
            raise InfeasibleChoice(
                f"actions are {choices.min()}..{choices.max()}, expected 0.."
                f"{self._problem.candidates - 1}"
            )
        results = batch.results
        over = results.terminated | results.truncated
        if self._strict:
            self._check_feasible(choices, over | results.begins)
        for e in np.flatnonzero(over):  # after the checks: a refused call draws no window
            self._begin(int(e), self._problem.draw(self._generators[e]))
        padded, info = self._advance(choices)
        flags = results.terminated.copy(), results.truncated.copy()
        return padded, results.reward.copy(), *flags, info

    @property
    def scenario_spec(self) -> Spec:
        """Names, units, ranges and scales of the features, in the order of their columns."""
        return self._problem.spec

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the masks (num_envs, K) of the current observations."""
        return self._batch.shown.allowed.copy()

    def render(self) -> tuple[Any, ...] | None:
        """Return a picture (H, W, 3) uint8, or text, of every environment; None without a mode."""
        from hindcast.pipeline.gymnasium_env.rendering import View, frame

        if self.render_mode is None:
            return None
        if not self._generators:
            raise InfeasibleChoice("there is nothing to render yet; call reset() first")
        problem, frames = self._problem, []
        for e, window in enumerate(self._window):
            observation = Observation(**self._batch.observation(e))
            view = View(problem.spec, observation, f"{problem.recipe.id}, window {window}")
            frames.append(frame(view, self.render_mode))
        return tuple(frames)

    def _seed(self, seed: int | Sequence[int | None] | None) -> None:
        if isinstance(seed, int | np.integer):
            seed = [int(seed) + e for e in range(self.num_envs)]
        seeds = [None] * self.num_envs if seed is None else list(seed)
        if len(seeds) != self.num_envs:
            raise InputError(f"there are {len(seeds)} seeds, expected {self.num_envs}")
        if not self._generators:
            self._generators = [seeding.np_random(env_seed)[0] for env_seed in seeds]
        for e, env_seed in enumerate(seeds):
            if env_seed is not None:
                self._generators[e] = seeding.np_random(env_seed)[0]

    def _named(self, windows: Any) -> list[int]:
        if isinstance(windows, int | np.integer | str):
            windows = [windows] * self.num_envs
        numbers = [self._problem.named(window) for window in windows]
        if len(numbers) != self.num_envs:
            raise InputError(
                f"options['window'] has {len(numbers)} windows, expected {self.num_envs}"
            )
        return numbers

    def _begin(self, e: int, window: int) -> None:
        self._window[e] = window
        self._batch.begin(e, self._problem.instance(window))

    def _check_feasible(self, actions: NDArray[np.int64], ignored: NDArray[np.bool_]) -> None:
        allowed = self._batch.shown.allowed[self._each, actions] | ignored
        if not allowed.all():
            e = int(np.argmin(allowed))
            raise InfeasibleChoice(
                f"action {actions[e]} of environment {e} is not feasible; see info['action_mask']"
            )

    def _advance(self, actions: NDArray[np.int64]) -> tuple[Padded, Info]:
        batch = self._batch
        began = batch.results.begins.copy()
        failed = batch.advance(actions)
        if failed >= 0:
            raise HindcastError(
                f"environment {failed}: the scenario {self._problem.scenario.name} refused action "
                f"{actions[failed]}, which its mask allows"
            )
        copied: Callable[[NDArray[Any]], NDArray[Any]] = np.copy if self._copy else np.asarray
        observations: Padded = {
            "context": copied(batch.shown.context),
            "candidates": copied(batch.shown.candidates),
            "mask": copied(batch.shown.mask),
        }
        if "image" in self._problem.observation_space.spaces:
            shape = (self.num_envs, *self._problem.spec.image_shape)
            observations["image"] = copied(batch.shown.image).reshape(shape)
        return observations, self._info(began)

    def _info(self, began: NDArray[np.bool_]) -> Info:
        """Return the infos of all environments, each with its mask `_NAME`."""
        shown, results = self._batch.shown, self._batch.results
        everywhere = np.ones(self.num_envs, np.bool_)
        masks = shown.allowed.copy() if self._copy else shown.allowed
        info: Info = {
            "action_mask": masks, "_action_mask": everywhere,
            "cut_candidates": shown.cut.copy(), "_cut_candidates": everywhere.copy(),
        }  # fmt: skip
        if began.any():
            info |= {"window": np.where(began, self._window, 0), "_window": began}
        stepped = ~(began | results.refused)
        if stepped.any():
            info |= {"elapsed_s": results.elapsed_s.copy(), "_elapsed_s": stepped}
        if results.refused.any():
            info |= {
                "invalid_action": results.refused.copy(),
                "_invalid_action": results.refused.copy(),
            }
        over = results.terminated | results.truncated
        if over.any():
            info |= {"outcome": self._outcome(over), "_outcome": over}
        return info

    def _outcome(self, over: NDArray[np.bool_]) -> Mapping[str, NDArray[Any]]:
        """Return the outcomes by name, zero where no episode is over."""
        outcomes: dict[str, NDArray[Any]] = {}
        for i, outcome in enumerate(self._problem.spec.outcomes):
            outcomes[outcome.name] = np.where(over, self._batch.results.outcomes[:, i], 0.0)
            outcomes[f"_{outcome.name}"] = over.copy()
        return outcomes
