"""Tests of the registered ids: every scenario has one, and Gymnasium accepts it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from packaging.requirements import Requirement
from packaging.version import Version

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.gymnasium_env.registration import ENVIRONMENTS, register_envs
from hindcast.pipeline.gymnasium_env.single import SchedulingEnv
from hindcast.pipeline.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[3]


def test_every_scenario_has_an_id():
    assert {a["scenario"] for a in ENVIRONMENTS.values() if a} >= {
        name for name, held in SCENARIOS.items() if isinstance(held, str)
    }


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*infinity. This is probably too"
)  # some features are unbounded
def test_gymnasium_accepts_every_scenario(make):
    check_env(make().unwrapped, skip_render_check=True)


def test_observations_of_whole_episodes_are_in_the_space(make):
    """The bounds are the spec's ranges, and finite wherever the spec has a limit."""
    env = make()
    spec = env.unwrapped.scenario_spec
    for name, features in (("context", spec.context), ("candidates", spec.candidates)):
        space = env.observation_space[name]
        high = np.broadcast_to(space.high, (*space.shape[:-1], len(features)))
        for i, feature in enumerate(features):
            assert (high[..., i] == np.float32(max(feature.high, 0))).all()
    rng = np.random.default_rng(0)
    for seed in (0, 1):
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            assert env.observation_space.contains(observation)
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        assert env.observation_space.contains(observation)
        assert info["outcome"]


def test_registering_again_changes_nothing():
    register_envs()
    before = dict(gymnasium.registry)
    register_envs()  # Gymnasium would warn of an id that is registered again
    assert gymnasium.registry == before


def test_an_id_takes_recipes_of_its_scenario_alone():
    register_envs()
    with pytest.raises(InputError, match="has the scenario 'slots', expected 'binpack'"):
        gymnasium.make("hindcast/Binpack-v0", recipe="slots-deeprm-v1")
    with pytest.raises(InputError, match="needs a recipe"):
        gymnasium.make("hindcast/Recipe-v0")
    env = gymnasium.make("hindcast/Recipe-v0", recipe="slots-deeprm-v1", split="test")
    assert env.reset(seed=0)[1]["window"] in range(250, 450)
    assert isinstance(env.unwrapped, SchedulingEnv)


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "import gymnasium, hindcast\nenv = gymnasium.make(NAME)",
        "import gymnasium\nenv = gymnasium.make('hindcast:hindcast/Slots-v0')",
        "import hindcast as h, gymnasium as g; h.register_envs()\nenv = g.make(NAME)",
    ],
    ids=["hindcast after gymnasium", "named by module", "hindcast before gymnasium"],
)
def test_an_import_makes_the_ids_known(script):
    """Nothing heavy is loaded before an environment is made."""
    light = "import sys\nassert not {'numba', 'polars'} & set(sys.modules)"
    script = script.replace("NAME", "'hindcast/Slots-v0'")
    imports, _, rest = script.rpartition("\n")
    done = subprocess.run(
        [sys.executable, "-c", f"{imports}\n{light}\n{rest}\nenv.reset(seed=0)"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_package_may_have_the_gymnasium_of_d3rlpy_and_a_newer_one():
    """`make test` runs these tests with both."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["train"]
    [own] = [r for r in map(Requirement, extra) if r.name == "gymnasium"]
    newer = re.search(r"^GYMNASIUM := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert Version(newer[1]) > Version("1.0.0")
    assert {newer[1], "1.0.0"} == set(own.specifier.filter([newer[1], "1.0.0"]))
