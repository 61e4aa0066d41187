"""Tests of `hindcast train-online`: from a recipe to a checkpoint for `evaluate` and `list`."""

import json

import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import UnknownName
from hindcast.pipeline.recipes.loading import load_recipe
from tests.conftest import TINY
from tests.policies.trainings import train_online

pytestmark = pytest.mark.slow

OVERRIDES = (
    *TINY,
    "online.agent=reinforce",
    "online.iterations=1",
    "online.settings={sampling={trajectories=3, stay=2}}",
)


def run(capsys, *argv):
    """Return the exit code, the JSON results and the text on stderr."""
    sets = [word for override in OVERRIDES for word in ("--set", override)]
    code = main([*map(str, argv[:2]), *sets, *map(str, argv[2:]), "--direct", "--json"])
    captured = capsys.readouterr()
    return code, [json.loads(line) for line in captured.out.splitlines()], captured.err


def test_a_recipe_becomes_a_checkpoint_that_is_evaluated(tmp_path, capsys):
    """Repeating the command changes nothing, and another command can start from its checkpoint."""
    out = tmp_path / "agent"
    train = ("train-online", "binpack-synthetic-v1", "--iterations", 3, "--workers", 2)
    code, (result,), _ = run(capsys, *train, "--out", out)
    assert code == 0
    assert (result["agent"], result["steps"], result["seed"]) == ("reinforce", 3, 0)
    assert result["checkpoint"] == str(out)
    assert result["best"] == str(out / "best")
    before = (out / "checkpoint.json").stat().st_mtime_ns
    assert run(capsys, *train, "--out", out)[0] == 0
    assert (out / "checkpoint.json").stat().st_mtime_ns == before
    assert run(capsys, *train, "--from", out, "--out", tmp_path / "more")[0] == 0
    code, (scored,), _ = run(
        capsys, "evaluate", "binpack-synthetic-v1", "--policy", out, "random",
        "--out", tmp_path / "evaluation",
    )  # fmt: skip
    assert code == 0
    assert len(scored["means"]) == 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--agent", "reinforc"], "did you mean 'reinforce'?"),
        (["--agent", "natural_gradient", "--set", "online.settings.updates=iteration"],
         "unknown key 'updates'"),
        (["--set", "online.iteration=5"], "did you mean 'iterations'?"),
        (["--from", "no/such"], "not a checkpoint"),
        (["--iterations", "0"], "at least 1"),
        (["--imitate-steps", "5"], "--imitate-steps is for --imitate"),
    ],
    ids=["agent", "setting of another agent", "key", "start", "iterations", "imitation"],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_written(more, said, tmp_path, capsys):
    out = tmp_path / "x"
    code, _, said_so = run(capsys, "train-online", "binpack-synthetic-v1", "--out", out, *more)
    assert code == 2
    assert said in said_so
    assert not out.exists()


def test_an_unknown_gate_is_refused(tmp_path):
    with pytest.raises(UnknownName, match="unknown gate 'log'"):
        train_online(load_recipe("binpack-synthetic-v1", OVERRIDES), out=tmp_path / "x", gate="log")
