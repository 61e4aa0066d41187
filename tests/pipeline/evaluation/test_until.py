"""Tests of evaluations that stop when they are decided, and of windows that share jobs."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation import evaluate as evaluation
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.evaluation.summary.evaluations import read_evaluation
from hindcast.pipeline.evaluation.until import caveats_of, check_until, decision, play_until
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.simulation.scenario import Scenario
from hindcast.policies.entrants import entrants

WINDOWS = range(100, 140)


def entrant(name, group=""):
    return Entrant(SimpleNamespace(name=name), "heuristic", group or name)


def play(difference, played, seeds=("a0", "a1")):
    """Return a function that plays windows: b has 0, and the seeds the difference and noise."""
    rng = np.random.default_rng(1)
    noise = {w: rng.normal(size=len(seeds)) for w in WINDOWS}

    def of(windows):
        played.append((windows[0], windows[-1]))
        rows = [("b", w, 0, "cost", 0.0) for w in windows]
        rows += [(s, w, 0, "cost", difference + noise[w][i]) for i, s in enumerate(seeds)
                 for w in windows]  # fmt: skip
        columns = ["policy", "window", "seed", "metric", "value"]
        return pl.DataFrame(rows, schema=columns, orient="row")

    return of


def test_a_large_difference_stops_early_and_keeps_rows_of_a_policy_together():
    played = []
    policies = [entrant("a0", "a"), entrant("a1", "a"), entrant("b")]
    scores, found = play_until(list(WINDOWS), policies, "cost", play(9.0, played))
    assert found.decided
    assert played == [(100 + 10 * i, 109 + 10 * i) for i in range(len(found.looks))]
    assert len(played) < 4
    assert (found.policy, found.other, found.most) == ("a", "b", 40)
    assert scores["policy"].unique(maintain_order=True).to_list() == ["a0", "a1", "b"]
    assert scores["policy"].rle().len() == 3
    assert "told apart, which was after" in caveats_of(found)[0].text
    assert decision(found).startswith("decided: a less b is +")


def test_no_difference_plays_all_windows():
    played = []
    policies = [entrant("a0"), entrant("b")]
    _, found = play_until(list(WINDOWS), policies, "cost", play(0.0, played, seeds=("a0",)))
    assert not found.decided
    assert [look.windows for look in found.looks] == [10, 20, 30, 40]
    assert caveats_of(found) == ()
    assert decision(found).startswith("not decided: a0 less b is")
    assert decision(found).endswith("40 of 40 windows, 4 looks, error spent 5 %")


def test_what_cannot_be_decided_is_refused(tiny_recipe):
    slots = load_recipe("slots-demo-v1", ['split.test="900..939"'])
    three = entrants(slots, ["hold_8", "sjf_now", "random"])
    with pytest.raises(InputError, match="compares two policies, found 3: hold_8, sjf_now, random"):
        check_until(slots, three, "test")
    few = load_recipe("slots-demo-v1", ['split.test="900..909"'])
    with pytest.raises(InputError, match="has 10 windows, expected at least 20"):
        check_until(few, three[:2], "test")
    with pytest.raises(InputError, match="windows that its log or its settings fix"):
        check_until(tiny_recipe, entrants(tiny_recipe, ["first_fit", "longest_first"]), "test")


@pytest.mark.slow
def test_the_windows_that_are_played_have_the_scores_of_any_evaluation(tmp_path):
    slots = load_recipe("slots-demo-v1", ['split.test="900..939"'])
    policies = entrants(slots, ["sjf_now", "hold_8"])
    result = evaluate(slots, policies, split="test", out=tmp_path / "e", decide=True)
    assert result.until is not None
    assert result.until.decided
    read = read_evaluation(tmp_path / "e")
    assert read.until == result.until
    windows = result.until.looks[-1].windows
    whole = load_recipe("slots-demo-v1", [f'split.test="900..{899 + windows}"'])
    evaluate(whole, policies, split="test", out=tmp_path / "whole")
    one, other = (pl.read_parquet(tmp_path / name / "scores.parquet") for name in ("e", "whole"))
    assert one.equals(other)


@pytest.mark.parametrize(
    ("first", "told"),
    [((0, 10, 20), None), ((0, 5, 20), {"7": [0, 10], "8": [5, 15], "9": [20, 30]})],
)
def test_an_evaluation_tells_which_jobs_windows_share(first, told):
    stretch = dict(zip((7, 8, 9), first, strict=True))
    scenario = SimpleNamespace(stretch=lambda _, w: (stretch[w], stretch[w] + 10))
    scenario.shared_stretches = partial(Scenario.shared_stretches, scenario)
    recipe = SimpleNamespace(config=None)
    job = SimpleNamespace(scenario=scenario, windows=[7, 8, 9], recipe=recipe)
    assert evaluation._stretches(job).get("stretches") == told
