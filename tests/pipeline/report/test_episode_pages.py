"""Tests of the page of a dataset's episodes: its numbers are the dataset's, and it steps."""

import json

import numpy as np
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline import dataset as datasets
from hindcast.pipeline.inspection.statistics import Statistics, feature_statistics, to_json
from hindcast.pipeline.report.view.episodes import _looked_at, write_episodes
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
    number = {of["episode"] for of in held(path.read_text("utf-8")).facts["episodes"]}
    episodes = [one for one in tiny.iter_episodes() if one.about["episode"] in number]
    behaviours = tiny.episodes()["behaviour"]
    assert {one.about["behaviour"] for one in episodes} == set(behaviours)
    assert behaviours.n_unique() < count == len(episodes) < len(behaviours)  # others where room is
    return path, episodes


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


@pytest.mark.slow
def test_flags_are_in_the_link_and_give_the_command(made, tiny):
    """Numbers that are no episodes of the page stay, and what is no number is left out."""
    path, episodes = made
    one, other = (episodes[i].about["episode"] for i in (1, 0))
    command = f"hindcast filter {tiny.folder} --episodes {{}} --out flagged"
    value = "document.getElementById('command').value"
    with chromium() as page:
        page.show(path, "#episode=1&step=3")
        assert page.run("document.getElementById('flagged').clientHeight") == 0
        page.run("document.getElementById('flag').focus()")
        page.press("Enter")
        assert page.run(value) == command.format(one)
        assert page.run("location.hash") == f"#episode=1&step=3&flags={one}"
        page.run("hindcast.show(0, 0)")
        page.press("Enter")
        assert page.run(value) == command.format(f"{other},{one}")
        assert page.run("document.getElementById('episode').options[1].text").startswith("⚑ ")
        page.run("document.getElementById('copy').focus()")
        page.press("Enter")
        page.until("document.getElementById('copy').textContent === 'Copied'")
        page.show(path, f"#episode=0&step=0&flags=90,{other},x,-3,90")
        assert page.run(value) == command.format(f"{other},90")
        assert "1 of them not on this page" in page.run(
            "document.getElementById('flags').textContent"
        )
        assert page.faults() == []


@pytest.mark.slow
def test_statistics_are_shown_as_they_were_computed(made, tiny):
    path, _ = made
    told = feature_statistics(tiny)
    facts = held(path.read_text("utf-8")).facts["statistics"]
    assert facts == json.loads(json.dumps(to_json(told)))
    assert f"Over all {told.total:,} decisions" in Elements(path.read_text("utf-8")).text
    with chromium() as page:
        page.show(path)
        page.run("document.getElementById('features').open = true")
        page.until("document.getElementById('of-features').rows.length")
        names = page.run(
            "[...document.getElementById('of-features').rows].map((r) => r.cells[0].textContent)"
        )
        assert [name.split(" [")[0] for name in names] == [f.feature.name for f in told.features]
        assert page.faults() == []


@pytest.mark.slow
def test_a_dataset_without_policies_is_shown_by_its_episodes(tiny, tmp_path, capsys):
    out = str(tmp_path / "view.html")
    assert main(["view", str(tiny.folder), "--out", out]) == 0
    assert out in capsys.readouterr().out
    assert held((tmp_path / "view.html").read_text("utf-8")).facts["episodes"]
    assert main(["view", str(tiny.folder), "--window", "3", "--out", out]) == 2
    assert "--window is for a recipe, and without --policy" in capsys.readouterr().err


def test_decisions_without_candidates_have_no_share_that_could_be_chosen():
    of = Statistics(200, 2, 400, 0, float("nan"), ("train",), ())
    told = "Over 1 in 2 of the 400 decisions of the dataset (200 of them), with 0 candidates."
    assert _looked_at(of) == told
