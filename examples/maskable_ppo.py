"""MaskablePPO of sb3-contrib, trained in the simulator and played on unseen windows.

    pip install stable-baselines3 sb3-contrib
    python examples/maskable_ppo.py [ID [STEPS [SEED]]]

The library is not changed. The environment has `action_masks`, which MaskablePPO looks for, and its
observation is a dictionary. The policy below scores every row with one network, so that what is
learned about one row holds for all of them. The learning rate falls to zero.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import hindcast
from hindcast.pipeline.statistics.intervals import mean_interval

try:
    from sb3_contrib import MaskablePPO
    from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
except ImportError:
    sys.exit("this example needs: pip install stable-baselines3 sb3-contrib")

OUTCOMES = {"hindcast/Slots-v0": "mean_slowdown", "hindcast/Binpack-v0": "makespan_s"}
ROWS = {"hindcast/Slots-v0": 11, "hindcast/Binpack-v0": 32}  # K
# Whether the best action is played. In slots actions are drawn, as in training: the best one of a
# young policy can be to let time pass again and again.
GREEDY = {"hindcast/Slots-v0": False, "hindcast/Binpack-v0": True}
WINDOWS = 50  # of the test split
HIDDEN = 32


class Scores(BaseFeaturesExtractor):
    """A score per row, and a summary of all rows and the context for the value: (B, K + HIDDEN)."""

    def __init__(self, space: Any, spec: hindcast.Spec) -> None:
        self.rows = space["candidates"].shape[0]
        super().__init__(space, self.rows + HIDDEN)
        self.columns = [i for i, f in enumerate(spec.candidates) if not f.identifier]
        scales = [spec.candidates[i].scale for i in self.columns]
        self.register_buffer("scale", torch.tensor(scales))
        self.register_buffer("context_scale", torch.tensor([f.scale for f in spec.context]))
        self.embed = nn.Sequential(nn.Linear(len(scales), HIDDEN), nn.Tanh())
        self.score = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
        self.summary = nn.Sequential(nn.Linear(HIDDEN + len(spec.context), HIDDEN), nn.Tanh())

    def forward(self, seen: dict[str, Tensor]) -> Tensor:
        """Return scores and summary."""
        rows = self.embed(_squashed(seen["candidates"][:, :, self.columns] / self.scale))
        mask = seen["mask"][:, :, None]
        mean = (rows * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        context = _squashed(seen["context"] / self.context_scale)
        summary = self.summary(torch.cat([mean, context], dim=1))
        return torch.cat([self.score(rows)[:, :, 0], summary], dim=1)


def _squashed(x: Tensor) -> Tensor:
    return x.sign() * x.abs().log1p()


class Split(nn.Module):
    """The two halves of what `Scores` gives: the actor takes the scores, the critic the rest."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.latent_dim_pi, self.latent_dim_vf = rows, HIDDEN

    def forward_actor(self, features: Tensor) -> Tensor:
        """Return the scores."""
        return features[:, : self.latent_dim_pi]

    def forward_critic(self, features: Tensor) -> Tensor:
        """Return the summary."""
        return features[:, self.latent_dim_pi :]

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return both."""
        return self.forward_actor(features), self.forward_critic(features)


class RowPolicy(MaskableMultiInputActorCriticPolicy):
    """A policy whose logits are the scores of the rows."""

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = Split(self.features_dim - HIDDEN)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = nn.Identity()
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1))


def make(name: str, split: str) -> gymnasium.Env[Any, Any]:
    """Return an environment whose episodes are windows of a split."""
    return gymnasium.make(name, split=split, candidates=ROWS[name])


def train(name: str, steps: int, seed: int) -> MaskablePPO:
    """Return an agent that was trained on the train windows, on one core."""
    torch.set_num_threads(1)
    spec = make(name, "train").unwrapped.scenario_spec  # type: ignore[attr-defined]
    envs = DummyVecEnv([lambda: make(name, "train")] * 8)
    agent = MaskablePPO(
        RowPolicy, VecNormalize(envs, norm_obs=False, gamma=0.99), n_steps=256, batch_size=256,
        n_epochs=6, gamma=0.99, learning_rate=lambda left: 1e-3 * left, seed=seed, device="cpu",
        policy_kwargs={
            "features_extractor_class": Scores, "features_extractor_kwargs": {"spec": spec},
        },
    )  # fmt: skip
    return agent.learn(steps)


def play(name: str, act: Callable[[Any, Any], int]) -> NDArray[np.float64]:
    """Return the headline outcome of every test window."""
    env, found = make(name, "test"), []
    windows = hindcast.load_recipe(gymnasium.spec(name).kwargs["recipe"]).windows("test")
    for window in windows[:WINDOWS]:
        observation, info = env.reset(options={"window": window})
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(act(observation, info))
            over = terminated or truncated
        found.append(info["outcome"][OUTCOMES[name]])
    return np.array(found)


def main(name: str = "hindcast/Slots-v0", steps: int = 100_000, seed: int = 0) -> None:
    """Train, play, and print the mean outcomes; both outcomes are better if they are lower."""
    hindcast.register_envs()
    began = time.process_time()
    agent = train(name, steps, seed)
    spent = time.process_time() - began

    def learned(observation: Any, info: Any) -> int:
        action, _ = agent.predict(
            observation, action_masks=info["action_mask"], deterministic=GREEDY[name]
        )
        return int(action)

    rng = np.random.default_rng(0)
    random = play(name, lambda _, info: int(rng.choice(np.flatnonzero(info["action_mask"]))))
    own = play(name, learned)
    saved = random - own
    _, low, high = mean_interval(saved)
    print(
        f"{name}, seed {seed}, {steps:,} steps in {spent:.0f} s of one core: {OUTCOMES[name]} "
        f"{own.mean():.2f}, random {random.mean():.2f}, saved {saved.mean():.2f} "
        f"({low:.2f} to {high:.2f}), better on {np.mean(saved > 0):.0%} of {len(saved)} windows",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "hindcast/Slots-v0", *map(int, sys.argv[2:4]))
