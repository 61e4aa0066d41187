"""Tests of `slots` against the published simulator's numbers and the strong one-line rules."""

import math

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.slots.config import SlotsConfig
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics.slots import HEURISTICS
from hindcast.policies.registry import resolve

SCENARIO = load_scenario("slots")
NOTHING = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))


def outcomes(config: SlotsConfig, policy: str, windows: int) -> dict[str, np.ndarray]:
    """Return outcomes by name, one value per window."""
    spec = SCENARIO.spec(config, "slowdown")
    behaviour = resolve(policy, "slots", spec)
    rows = []
    for window in range(windows):
        instance = SCENARIO.instance(
            config, "slowdown", NOTHING, window, np.random.default_rng([1, window])
        )
        rng = np.random.default_rng([2, window])
        rows.append(run_episode(SCENARIO, spec, instance, behaviour, rng).outcomes)
    return dict(zip([o.name for o in spec.outcomes], np.array(rows).T, strict=True))


@pytest.mark.parametrize(
    ("rate", "policy", "jobs", "slowdown", "time_steps", "actions"),
    [
        (0.1, "sjf_now", 526, 1.4939, 5221, 5747),
        (0.1, "packer_now", 526, 1.6943, 5219, 5745),
        (0.3, "sjf_now", 1494, 2.4838, 6134, 7628),
        (0.3, "packer_now", 1494, 3.6861, 6099, 7593),
        (0.5, "sjf_now", 2467, 3.7436, 8037, 10504),
        (0.5, "packer_now", 2467, 7.7029, 7820, 10287),
        (0.7, "sjf_now", 3453, 4.9252, 10175, 13628),
        (0.7, "packer_now", 3453, 12.4236, 9839, 13292),
        (0.9, "sjf_now", 4431, 6.7770, 12276, 16707),
        (0.9, "packer_now", 4431, 18.2400, 12038, 16469),
    ],
)
def test_compat_gives_the_published_numbers(rate, policy, jobs, slowdown, time_steps, actions):
    """Jobs, time steps and actions are equal, and the mean slowdown agrees to four digits."""
    got = outcomes(SlotsConfig(compat="deeprm", arrival_rate=rate), policy, 100)
    assert got["jobs"].sum() == jobs
    assert got["time_steps"].sum() == time_steps
    assert got["actions"].sum() == actions
    assert round(got["slowdown_sum"].sum() / got["jobs"].sum(), 4) == slowdown
    assert got["unfinished"].sum() == got["dropped"].sum() == 0


def test_compat_through_an_evaluation(tmp_path):
    """The recipe with another rate scores the published mean, pooled over all windows."""
    recipe = load_recipe("slots-deeprm-compat", ["config.arrival_rate=0.3"])
    behaviour = Behaviour("sjf_now", HEURISTICS["sjf_now"])
    evaluate(recipe, [Entrant(behaviour, "heuristic", "sjf_now")], split="all", out=tmp_path)
    sums = (
        pl.read_parquet(tmp_path / "scores.parquet").group_by("metric").agg(pl.col("value").sum())
    )
    value = dict(sums.rows())
    assert (value["jobs"], value["time_steps"], value["actions"]) == (1494, 6134, 7628)
    assert round(value["slowdown_sum"] / value["jobs"], 4) == 2.4838


def test_random_reference_is_about_9_in_compat():
    got = outcomes(SlotsConfig(compat="deeprm"), "random_reference", 100)
    assert got["slowdown_sum"].sum() / got["jobs"].sum() == pytest.approx(9.2, abs=0.5)


# The prototype's means are over 200 other sequences and ours over as many: both have the same
# standard error, so the difference has sqrt(2) times that error.
WINDOWS = 200
REPORT = {"preset": "report", "arrival": "all_at_once", "arrival_rate": 1.0, "steps": 47}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "policy", "slowdown"),
    [
        ({"arrival_rate": 0.3}, "sjf_now", 2.630),
        ({"arrival_rate": 0.3}, "no_short_visible", 2.477),
        ({"arrival_rate": 0.3}, "hold_8", 1.886),
        ({"arrival_rate": 0.4}, "sjf_now", 3.129),
        ({"arrival_rate": 0.4}, "sjf_reserve", 4.177),
        ({"arrival_rate": 0.4}, "area_first_reserve", 4.183),
        ({"arrival_rate": 0.4}, "no_short_visible", 2.717),
        ({"arrival_rate": 0.4}, "hold_8", 1.990),
        ({"arrival_rate": 0.7}, "sjf_now", 4.823),
        ({"arrival_rate": 0.7}, "sjf_reserve", 6.047),
        ({"arrival_rate": 0.7}, "area_first_reserve", 6.027),
        ({"arrival_rate": 0.7}, "no_short_visible", 3.254),
        ({"arrival_rate": 0.7}, "hold_5", 2.454),
        ({"arrival_rate": 1.0}, "sjf_reserve", 7.801),
        ({"arrival_rate": 1.0}, "area_first_reserve", 7.771),
        ({"arrival_rate": 1.0, "ties": "slot"}, "sjf_now", 8.790),
        (REPORT, "sjf_now", 6.178),
        (REPORT, "sjf_reserve", 5.123),
        (REPORT, "area_first_reserve", 5.062),
        (REPORT, "no_short_visible", 5.452),
    ],
)
def test_one_line_rules_agree_with_the_prototype(settings, policy, slowdown):
    """Mean slowdown is within 2.5 standard errors, and no job is unfinished or dropped."""
    got = outcomes(SlotsConfig(**settings), policy, WINDOWS)
    error = math.sqrt(2) * got["mean_slowdown"].std() / math.sqrt(WINDOWS)
    assert abs(got["mean_slowdown"].mean() - slowdown) < 2.5 * error
    assert got["unfinished"].sum() == got["dropped"].sum() == 0


def test_the_stream_agrees_with_the_prototype():
    """With 500 steps at rate .3, sjf has 3.302 and no_short_visible 3.015."""
    config = SlotsConfig(arrival_rate=0.3, steps=500, max_time_steps=4000)
    for policy, slowdown in (("sjf_now", 3.302), ("no_short_visible", 3.015)):
        got = outcomes(config, policy, 100)
        assert got["mean_slowdown"].mean() == pytest.approx(slowdown, abs=0.2)
        assert got["unfinished"].sum() == 0


def test_the_load_is_1_845_times_the_rate():
    got = outcomes(SlotsConfig(arrival_rate=0.4), "sjf_now", 200)
    assert got["expected_load"][0] == pytest.approx(1.845 * 0.4)
    assert got["offered_load"].mean() == pytest.approx(1.845 * 0.4, rel=0.05)
