"""Tests of the page of a dataset's episodes: its numbers are the dataset's, and it steps."""

import numpy as np
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline import dataset as datasets
from hindcast.pipeline.report.view.episodes import write_episodes
from tests.chromium import chromium
from tests.pipeline.report.view_pages import Elements, held


@pytest.fixture(scope="module")
def tiny(tiny_dataset):
    return datasets.open(tiny_dataset)


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory):
    """Write the page of a small dataset; return its path, and the episodes on it."""
    path = tmp_path_factory.mktemp("episodes") / "view.html"
    count = write_episodes(tiny, tiny.iter_episodes(), path, ["A caution."])
    first = {}
    for one in tiny.iter_episodes():
        first.setdefault(one.about["behaviour"], one)
    assert count == len(first) > 1
    return path, list(first.values())


def test_the_page_has_the_decisions_of_the_dataset(made):
    path, episodes = made
    data = held(path.read_text("utf-8"))
    of, at, candidate = data.columns, 0, 0
    for number, one in enumerate(episodes):
        n, v = len(one), int(one.offsets[len(one)])
        rows, candidates = slice(at, at + n), slice(candidate, candidate + v)
        assert (of["episode"][rows] == number).all()
        assert (of["count"][rows] == np.diff(one.offsets[: n + 1])).all()
        assert (of["choice"][rows] == one.choice).all()
        assert (of["reward"][rows] == one.reward).all()
        assert (of["time"][rows] == one.time_s[:n]).all()
        assert (of["propensity"][rows] == one.propensity).all()
        assert of["togo"][at] == pytest.approx(one.about["return"])
        assert of["togo"][at + n - 1] == one.reward[-1]
        assert (of["feasible"][candidates] == one.feasible[:v]).all()
        assert (of["chances"][candidates] == one.probabilities[:v]).all()
        width = one.context.shape[1]
        assert (of["context"][at * width : (at + n) * width] == one.context[:n].ravel()).all()
        width = one.candidates.shape[1]
        found = of["candidates"][candidate * width : (candidate + v) * width]
        assert (found == one.candidates[:v].ravel()).all()
        at, candidate = at + n, candidate + v
    assert at == len(of["choice"])
    assert "A caution." in Elements(path.read_text("utf-8")).text


@pytest.mark.slow
def test_keys_step_through_the_decisions(made):
    path, episodes = made
    one = episodes[1]
    with chromium() as page:
        page.show(path, "#episode=1&step=0")
        page.run("document.getElementById('step').focus()")
        page.press("ArrowRight")
        told = page.run("document.getElementById('sentence').textContent")
        assert told.startswith(f"Decision 2 of {len(one)}, at ")
        assert f"chose candidate {one.choice[1]} of 0 to" in told
        rows = page.run("document.getElementById('body').rows.length")
        assert rows == one.offsets[2] - one.offsets[1]
        assert page.run("document.querySelector('tr.strongest').rowIndex") == one.choice[1] + 1
        page.press("End")
        told = page.run("document.getElementById('sentence').textContent")
        assert told.startswith(f"Decision {len(one)} of {len(one)}")
        assert page.faults() == []


def test_a_dataset_without_policies_is_shown_by_its_episodes(tiny, tmp_path, capsys):
    out = str(tmp_path / "view.html")
    assert main(["view", str(tiny.folder), "--out", out]) == 0
    assert out in capsys.readouterr().out
    assert held((tmp_path / "view.html").read_text("utf-8")).facts["episodes"]
    assert main(["view", str(tiny.folder), "--window", "3", "--out", out]) == 2
    assert "--window is for a recipe, and without --policy" in capsys.readouterr().err
