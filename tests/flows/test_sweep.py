"""Tests of `hindcast train --sweep` and `--seeds`, from the command line, in this process."""

import json

import polars as pl
import pytest

from hindcast.flows import cli

pytestmark = pytest.mark.slow

SWEEP = """
agents = ["behaviour_cloning"]
steps = 3
seeds = [0, 1]
settings.learning_rate = [0.01, 0.1]
"""


@pytest.fixture
def sweep(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def _run(capsys, *argv):
    code = cli.main([*map(str, argv)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_sweep_prints_the_best_first_and_where_the_table_is(
    sweep, tiny_dataset, tmp_path, capsys
):
    argv = ("train", tiny_dataset, "--sweep", sweep, "--out", tmp_path / "s", "--direct")
    code, out, _ = _run(capsys, *argv)
    assert code == 0
    lines = out.splitlines()
    assert "preference" in lines[0]
    assert sum("behaviour_cloning" in line for line in lines) == 2
    table = pl.read_parquet(lines[-1])
    assert len(table) == 4
    code, again, _ = _run(capsys, *argv, "--json")
    assert code == 0
    assert json.loads(again)["runs"] == 4


def test_seeds_are_a_sweep_of_one_agent(tiny_dataset, tmp_path, capsys):
    code, out, _ = _run(
        capsys, "train", tiny_dataset, "--agent", "behaviour_cloning", "--seeds", 0, 3,
        "--steps", 2, "--set", "network.hidden=[4]", "--out", tmp_path / "s", "--direct",
    )  # fmt: skip
    assert code == 0
    assert sorted(pl.read_parquet(out.splitlines()[-1])["seed"]) == [0, 3]
    assert len(list((tmp_path / "s" / "runs").iterdir())) == 2


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "give --agent NAME, or --sweep FILE"),
        (("--seeds", "1"), "--seeds needs --agent"),
        (("--agent", "cql", "--seeds", "1", "--seed", "2"), "--seed is for a single training"),
        (("--agent", "cql", "--seeds", "1", "--checkpoint-every", "2"), "--checkpoint-every is"),
        (("--agent", "cql", "--device", "tpu"), "--device"),
        (("--agent", "cql", "--set", "network.hiden=[4]"), "did you mean 'hidden'"),
        (("--agent", "cql", "--seeds", "1", "--set", "alhpa=2.0"), "did you mean 'alpha'"),
        (("--sweep", "SWEEP", "--agent", "cql"), "--agent is for a single training"),
        (("--sweep", "none.toml"), "none.toml: this file cannot be read"),
    ],
)
def test_options_that_do_not_fit_are_named(argv, said, sweep, tiny_dataset, tmp_path, capsys):
    given = [str(sweep) if word == "SWEEP" else word for word in argv]
    code, out, err = _run(
        capsys, "train", tiny_dataset, *given, "--out", tmp_path / "x", "--direct"
    )
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "x").exists()
