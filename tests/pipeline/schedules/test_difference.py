"""The first decision that differs is the one that two recorded decision logs show."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.evaluation.evaluate import make_job
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import BehaviourRecipe
from hindcast.pipeline.schedules.difference import compare_window
from hindcast.pipeline.schedules.sentences import sentence_of
from hindcast.policies.entrants import entrants
from hindcast.policies.registry import behaviours

# recipe, settings, and pairs of policies: two windows each, 20 in all
_PAIRS = [
    ("queue-lublin1-v1", ["config.jobs=64", "config.follow=30"],
     [("fcfs_easy", "saf_easy"), ("sjf_easy", "wfp3_easy"), ("fcfs_easy", "lxf_easy")]),
    ("binpack-synthetic-v1", ["config.jobs_per_window=8"],
     [("tetris", "first_fit"), ("first_fit", "longest_first")]),
    ("deferrable-base-v1", ["config.horizon=48"], [("fifo", "tetris")]),
    ("slots-demo-v1", [], [("sjf_reserve", "packer_now")]),
    ("gpupack-families-v1", [], [("fgd", "best_fit")]),
    ("multicluster-uniform-v1", ["config.applications=40"], [("sf_e", "lf_e")]),
    ("thermal-default-v1", ["config.jobs=60"], [("min_heat", "earliest_start")]),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "pair"),
    [pytest.param(name, settings, pair, id=f"{name}-{'-'.join(pair)}")
     for name, settings, pairs in _PAIRS for pair in pairs],
)  # fmt: skip
def test_the_first_difference_is_that_of_two_decision_logs(name, settings, pair, tmp_path):
    recipe = load_recipe(name, settings)
    first = recipe.windows("test")[0]
    recipe = replace(
        recipe, split={"train": range(first, first + 2)}, dataset_splits=("train",),
        behaviours=tuple(BehaviourRecipe(policy, episodes=1) for policy in pair),
    )  # fmt: skip
    build(recipe, behaviours(recipe), tmp_path / "log")
    steps = pl.read_parquet(tmp_path / "log" / "data" / "*.parquet").select(
        "episode", "step", "choice", "time_s", "candidates"
    )
    episodes = pl.read_parquet(tmp_path / "log" / "episodes.parquet")
    job = make_job(recipe, "train", Path("unused"))
    a, b = (entrant.behaviour for entrant in entrants(recipe, pair))
    for window in job.windows:
        logs = [
            steps.join(
                episodes.filter((pl.col("window") == window) & (pl.col("behaviour") == of)),
                on="episode", how="semi",
            )
            for of in pair
        ]  # fmt: skip
        both = logs[0].join(logs[1], on="step", suffix="_b").sort("step")
        right = both.filter(pl.col("choice") != pl.col("choice_b")).head(1)
        found = compare_window(job, window, a, b, most=0).first
        assert (found is None) == right.is_empty()
        if found is None:
            continue
        row = right.row(0, named=True)
        assert (found.decision, *found.chosen) == (row["step"], row["choice"], row["choice_b"])
        shown = np.array([list(one.features.values()) for one in found.candidates], np.float32)
        logged = np.array([list(of.values()) for of in row["candidates"]], np.float32)
        assert found.count == len(found.candidates)
        np.testing.assert_array_equal(shown, logged)
        for place in range(2):
            chosen = found.candidates[found.chosen[place]]
            scores = [one.scores[place] for one in found.candidates if one.feasible]
            assert chosen.feasible
            if chosen.probabilities[place] == 1:
                assert chosen.scores[place] == max(scores)


def _job(settings=()):
    recipe = load_recipe("queue-lublin1-v1", ["config.jobs=64", "config.follow=30", *settings])
    return make_job(recipe, "test", Path("unused")), recipe


def _behaviours(recipe, *names):
    return [entrant.behaviour for entrant in entrants(recipe, names)]


@pytest.mark.slow
def test_equal_policies_do_not_differ():
    job, recipe = _job()
    (policy,) = _behaviours(recipe, "saf_easy")
    found = compare_window(job, job.windows[0], policy, policy)
    assert (found.first, found.differing, found.costliest) == (None, 0, ())


@pytest.mark.slow
def test_the_costliest_decisions_are_told_once_a_job_with_waits_of_both_schedules():
    job, recipe = _job()
    a, b = _behaviours(recipe, "fcfs_easy", "saf_easy")
    found = compare_window(job, job.windows[1], a, b, most=5)
    assert 1 < len(found.costliest) <= 5
    sizes = [abs(one.cost_s) for one in found.costliest]
    assert sizes == sorted(sizes, reverse=True)
    waits = [dict(s.jobs.select("job", "wait_s").rows()) for s in found.schedules]
    moved = []
    for one in found.costliest:
        jobs = {job for job in one.jobs if job is not None}
        assert one.cost_s == sum(waits[0][job] - waits[1][job] for job in jobs)
        assert one.decision >= found.first.decision
        moved.append(max(jobs, key=lambda job: abs(waits[0][job] - waits[1][job])))
    assert len(set(moved)) == len(moved)
    # no other decision costs more: every job that waits differently is in one of them
    assert found.differing >= len(found.costliest)


def test_a_sentence_has_the_numbers_of_its_decision():
    job, recipe = _job()
    a, b = _behaviours(recipe, "fcfs_easy", "saf_easy")
    found = compare_window(job, job.windows[0], a, b, most=0).first
    keeps, starts = (found.candidates[row] for row in found.chosen)
    assert keeps.features["safe"] == 0
    assert starts.features["safe"] == 1
    processors = [round(np.exp(one.features["log_processors"])) for one in (keeps, starts)]
    until = found.at_s + round(np.expm1(keeps.features["start_in"]))
    days, rest = divmod(round(until), 86_400)
    clock = f"day {days + 1}, {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    assert f"fcfs_easy keeps {processors[0]} processors for {keeps.text}, which" in found.sentence
    assert f"until {clock}, since its score is" in found.sentence
    assert f"saf_easy starts {starts.text}, which has waited" in found.sentence
    number = found.jobs[0]
    assert keeps.text == f"job {number + 1}"  # the log counts from 1
    assert found.to_json()["chosen"] == list(found.chosen)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (2, "2 candidates, of which 1 can be chosen. "),
        (900, "900 candidates; 1 of the 2 listed can be chosen. "),
    ],
)
def test_a_sentence_says_of_how_many_candidates_some_can_be_chosen(count, said):
    listed = [
        {"row": row, "feasible": row == 0, "text": f"server {row}", "scores": [None, None],
         "probabilities": [None, None]}
        for row in range(2)
    ]  # fmt: skip
    decision = {"scenario": "binpack", "decision": 4, "at_s": 30.0, "count": count,
                "candidates": listed, "chosen": [0, 1], "policies": ["a", "b"],
                "jobs": [None, None], "came": []}  # fmt: skip
    sentence = sentence_of(decision, {"clock": "s", "epoch": None})
    assert sentence.startswith(f"Decision 4 at day 1, 00:00:30: {said}")


@pytest.mark.parametrize("pair", [("saf_clairvoyant", "sjf_easy"), ("sjf_easy", "saf_clairvoyant")])
def test_a_rule_over_the_memory_is_compared_without_scores(pair):
    job, recipe = _job()
    found = compare_window(job, job.windows[0], *_behaviours(recipe, *pair), most=4)
    place = pair.index("saf_clairvoyant")
    assert found.first.candidates[0].scores[place] is None
    assert found.first.candidates[0].scores[1 - place] is not None
    assert found.differing
    assert found.costliest


def test_columns_that_one_policy_reads_are_told_beside_the_others():
    job, recipe = _job()
    a, b = _behaviours(recipe, "fcfs_easy", "aged_expected_easy")
    found = compare_window(job, job.windows[0], a, b, most=0).first
    assert {"log_expected", "log_requested"} <= found.candidates[0].features.keys()


def test_where_a_policy_draws_nobody_can_say_what_it_would_have_chosen():
    job, recipe = _job()
    a, b = _behaviours(recipe, "fcfs_easy", "random")
    found = compare_window(job, job.windows[0], a, b)
    assert (found.differing, found.costliest) == (None, ())
    assert "random" in found.first.sentence
    assert "drawn with probability" in found.first.sentence
