"""Tests of commands that are given tables and agents of papers: error lines, listed keys."""

import pytest

from tests.flows.test_cli import fails, listed


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["multiclustr"], "did you mean 'multicluster'?"),
        (["multicluster", "--last", "3"], "multicluster has no option --last"),
        (["multicluster", "x"], "needs 0 folders, not 1"),
        (["multicluster-scores", "x"], "needs --policy"),
        (["sliding", "x"], "needs --recipe"),
        (["fitness-correlation", "a", "--recipe", "x"], "needs 2 folders, not 1"),
    ],
)
def test_bad_input_of_calibrate_is_one_line_and_exit_code_2(
    argv, said, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    code, line = fails(capsys, "calibrate", *argv)
    assert code == 2
    assert said in line
    assert not list(tmp_path.iterdir())


def test_keys_of_an_agent_of_a_paper_are_listed(capsys):
    keys = listed(capsys, "--keys", "deferrable-osdec-online")
    epochs = keys["online.settings.epochs"]
    assert (epochs["value"], epochs["type"]) == (4, "integer")
    assert epochs["meaning"].startswith("Passes over a batch")
    assert keys["online.settings.network.encoder"]["value"] == "attention"
