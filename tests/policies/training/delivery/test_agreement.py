"""Tests of the gate on a log alone: agreement, the best logged rule, what is delivered."""

import dataclasses

import numpy as np
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.networks.checkpoint import load_policy, read_description
from hindcast.policies.registry import behaviours
from hindcast.policies.training.delivery.agreement import (
    agreements,
    best_logged_rule,
    judge,
    log_likelihood,
)
from hindcast.policies.training.delivery.verdict import rule_policy
from tests.policies.training.delivery.conftest import RULES
from tests.policies.trainings import train


def test_agreement_is_the_share_of_pairs_by_difference_of_returns():
    """Window 0: of the differences 1, 3 and 2, the scorer is right about the first two."""
    window, returns = np.array([0, 0, 0, 1, 1, 2]), np.array([1.0, 2.0, 4.0, 5.0, 5.0, 9.0])
    likely = np.array([[0.1], [0.6], [0.5], [0.3], [0.2], [0.0]])
    np.testing.assert_allclose(agreements(window, returns, likely), [[(1 + 3) / 6]])


def test_an_equal_likelihood_counts_one_half():
    window, returns = np.array([3, 3]), np.array([1.0, 2.0])
    likely = np.array([[0.1, 0.4, 0.5], [0.1, 0.5, 0.4]])
    np.testing.assert_array_equal(agreements(window, returns, likely), [[0.5], [1.0], [0.0]])


def test_no_window_has_two_returns():
    assert agreements(np.array([0, 1]), np.array([1.0, 2.0]), np.zeros((2, 4))).shape == (4, 0)


def test_the_best_logged_rule_has_the_best_mean_on_shared_windows(log):
    opened = ds.open(log)
    episodes = opened.episodes()
    means = {
        name: episodes.filter(
            episodes["behaviour"].str.starts_with(name) & (episodes["split"] != "test")
        )["mean_slowdown"].mean()
        for name in RULES - {"random"}
    }
    assert best_logged_rule(opened) == min(means, key=means.get)


def test_a_rule_finds_its_own_episodes_likelier_than_random_play(log):
    opened = ds.open(log)
    rule = rule_policy(opened.spec, "sjf_now")
    mine = [t for t in opened.iter_episodes("train") if t.about["behaviour"].startswith("sjf_now")]
    found = np.mean([log_likelihood(rule, t, (0.05, 0.5)) for t in mine], axis=0)
    other = [t for t in opened.iter_episodes("train") if t.about["behaviour"] == "random"]
    drawn = np.mean([log_likelihood(rule, t, (0.05, 0.5)) for t in other], axis=0)
    assert (found > drawn).all()


def test_likelihood_is_that_of_a_softmax(log):
    opened = ds.open(log)
    rule = rule_policy(opened.spec, "packer_now")
    t = next(iter(opened.iter_episodes("train")))
    expected = []
    for d in range(len(t)):
        rows = slice(t.offsets[d], t.offsets[d + 1])
        scores = rule.batch_scores(
            t.context[d : d + 1].astype(float), t.candidates[rows].astype(float),
            np.array([0, rows.stop - rows.start]), feasible=t.feasible[rows],
        )  # fmt: skip
        able = t.feasible[rows]
        if able.sum() > 1:
            shares = np.exp(scores / 0.3) * able
            expected.append(np.log(shares[t.choice[d]] / shares.sum()))
    np.testing.assert_allclose(log_likelihood(rule, t, (0.3,)), [np.mean(expected)], rtol=1e-6)


def test_a_rule_agrees_no_better_than_itself(log):
    opened = ds.open(log)
    best = best_logged_rule(opened)
    verdict = judge(opened, rule_policy(opened.spec, best), 0)
    assert (verdict.delivered, verdict.rule, verdict.metric) == ("rule", best, "agreement")
    assert verdict.difference == 0.0


@pytest.mark.nightly
def test_an_agent_of_noise_is_not_delivered(log, tmp_path):
    out = train(log, "behaviour_cloning", steps=1, seed=0, out=tmp_path / "run", gate="log")
    told = read_description(out / "delivered")["training"]["delivered"]
    opened = ds.open(log)
    assert told["delivered"] == "rule"
    assert told["rule"] == best_logged_rule(opened)
    policy = load_policy(out / "delivered")
    policy.check(opened.spec)
    assert policy.network.settings.rules == (told["rule"],)


@pytest.mark.slow
def test_a_log_without_a_rule_has_no_verdict(tmp_path):
    splits = ('split.train="0..1"', 'split.validation="2..3"', 'split.test="4..4"')
    recipe = load_recipe("slots-deeprm-v1", (*splits, "config.steps=10"))
    drawn = tuple(b for b in recipe.behaviours if b.policy == "random")
    build(dataclasses.replace(recipe, behaviours=drawn), behaviours(recipe), tmp_path / "dataset")
    opened = ds.open(tmp_path / "dataset")
    assert best_logged_rule(opened) is None
    assert judge(opened, rule_policy(opened.spec, "sjf_now"), 0) is None
    out = train(tmp_path / "dataset", "behaviour_cloning", steps=1, seed=0, out=tmp_path / "run")
    assert not (out / "delivered").exists()
