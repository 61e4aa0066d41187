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


JOBS = (
    "train-online", "deferrable-online", "--direct", "--set", "config.horizon=8",
    "--set", 'split.train="200..201"', "--set", 'split.validation="80..80"',
)  # fmt: skip


@pytest.mark.parametrize("agent", ["score_ppo", "price_evolution"])
def test_what_cannot_be_imitated_is_refused_in_one_line(agent, tiny_dataset, tmp_path, capsys):
    """Decisions of another scenario and a folder that is not a dataset are refused."""
    own = ["--set", "online.settings={sampling={windows=1}}", "--agent", agent]
    for folder, said in (
        (tiny_dataset, "tiny: decisions of other features"),
        (tmp_path, "no finished dataset"),
    ):
        assert main([*JOBS, *own, "--imitate", str(folder), "--out", str(tmp_path / "x")]) == 2
        (error,) = capsys.readouterr().err.strip().splitlines()
        assert said in error


def test_a_start_of_another_form_is_refused_in_one_line(tmp_path, capsys):
    """A network of prices cannot start one that scores slots. The error names both."""
    small = ["--set", "online.settings.sampling={trajectories=4, windows=1}"]
    train = [*JOBS, "--iterations", "1"]
    assert main([*train, *small, "--out", str(tmp_path / "prices")]) == 0
    capsys.readouterr()
    more = ["--agent", "score_ppo", "--from", str(tmp_path / "prices"), "--out"]
    own = ["--set", "online.settings={sampling={windows=1}}"]
    assert main([*train, *own, *more, str(tmp_path / "x")]) == 2
    (error,) = capsys.readouterr().err.strip().splitlines()
    assert "kind 'prices', but score_ppo needs a network of kind 'slot_scores'" in error
    assert not (tmp_path / "x").exists()
