"""Tests of `hindcast train-online` with agents whose networks have a form of their own."""

import pytest

from hindcast.flows.cli import main

pytestmark = pytest.mark.slow

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
