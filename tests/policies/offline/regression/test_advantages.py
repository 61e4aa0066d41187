"""Tests of advantages fitted with the log's propensities: against arithmetic, for any baseline."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.offline.regression import advantage_cloning
from hindcast.policies.offline.regression.advantage_regression import fit_maps
from hindcast.policies.offline.regression.advantages import (
    AdvantageSettings,
    explained,
    fit_advantages,
    shortfalls,
    to_go,
)
from hindcast.policies.training.episode_stream import Logs, log_of_dataset, log_of_decisions
from hindcast.policies.training.returns import best_behaviours, of_behaviours
from tests.policies.logs import SPEC, Log, some_candidates, some_context
from tests.policies.trainings import train_agent

PHI = NetworkSettings(quadratic=False)
EXACT = AdvantageSettings(ridge=1e-9, discount=1.0)


def _skewed(windows, rng, noise=0.0):
    """Return episodes of one decision that prefers large sizes. The reward is 2 gain + luck.

    The luck of a window is large and not observable.
    """
    log, probabilities = Log(), []
    for window in range(windows):
        candidates = some_candidates(rng)
        b = candidates[:, 3] + 1.0
        b /= b.sum()
        choice = int(rng.choice(len(b), p=b))
        luck = noise * rng.normal()
        log.episode(
            window,
            [{"context": some_context(rng), "candidates": candidates, "choice": choice,
              "reward": 2.0 * candidates[choice, 1] + luck}],
        )  # fmt: skip
        probabilities.append(np.pad(b, (0, 6 - len(b))))
    return dataclasses.replace(log.build(), probabilities=np.array(probabilities, np.float32))


def _fit(decisions, settings=EXACT, kept=None):
    log = log_of_decisions(decisions)
    maps = fit_maps(decisions, SPEC, Logs(log), PHI)
    kept = np.ones(len(log.episodes), bool) if kept is None else kept
    return log, maps, kept, fit_advantages(log, kept, maps, settings)


@pytest.mark.slow
def test_what_a_choice_pays_is_found():
    """A unit of gain is worth 2, and no other feature is worth anything."""
    _, maps, _, found = _fit(_skewed(4000, np.random.default_rng(0)))
    names = [SPEC.candidates[c].name for c in maps.candidates.columns]
    slopes = found.theta[: len(names)] * maps.candidates.inverse[: len(names)]
    raw = dict(zip(names, slopes, strict=True))
    assert raw["gain"] == pytest.approx(2.0, abs=0.05)
    assert raw["door"] == pytest.approx(0.0, abs=0.05)
    assert found.spread > 0.0


@pytest.mark.slow
def test_a_baseline_that_knows_nothing_leaves_the_advantages_unbiased():
    """With luck ten times the gain, means over 40 logs lie around the truth."""
    slopes = []
    for seed in range(40):
        _, maps, _, found = _fit(_skewed(200, np.random.default_rng(seed), noise=10.0))
        slopes.append(found.theta[0] * maps.candidates.inverse[0])
    error = np.std(slopes) / np.sqrt(len(slopes))
    assert abs(np.mean(slopes) - 2.0) < 4.0 * error


@pytest.mark.slow
def test_wrong_probabilities_bias_what_is_found():
    """Taking the probabilities for uniform biases the effect of size, which the log prefers."""
    decisions = _skewed(4000, np.random.default_rng(1))
    steep = decisions.candidates[..., 3] * decisions.mask
    reward = decisions.reward + 0.05 * steep.max(axis=1)  # the largest size seems to pay
    decisions = dataclasses.replace(decisions, reward=reward)
    uniform = (decisions.mask / decisions.mask.sum(axis=1, keepdims=True)).astype(np.float32)
    places = []
    for d in (decisions, dataclasses.replace(decisions, probabilities=uniform)):
        _, maps, _, found = _fit(d)
        size = [SPEC.candidates[c].name for c in maps.candidates.columns].index("size")
        places.append(abs(found.theta[size]))
    assert places[1] > 3.0 * places[0]


def test_later_shortfalls_are_added_back_by_hand(two_stages):
    """Targets are Y = r + gamma (Y' + shortfall'), from the last decision backwards."""
    decisions = two_stages.build()
    settings = AdvantageSettings(discount=0.5)
    log, maps, kept, found = _fit(decisions, settings)
    (chunk,) = log.chunks(kept)
    gains = shortfalls(chunk, maps, found.theta)
    assert gains.min() >= 0.0
    r = chunk.reward.reshape(-1, 2)
    plain = to_go(chunk, settings).reshape(-1, 2)
    np.testing.assert_allclose(plain[:, 0], r[:, 0] + 0.5 * r[:, 1])
    added = to_go(chunk, settings, gains).reshape(-1, 2)
    np.testing.assert_allclose(added[:, 0], r[:, 0] + 0.5 * (r[:, 1] + gains.reshape(-1, 2)[:, 1]))
    np.testing.assert_allclose(added[:, 1], r[:, 1], atol=1e-12)


def test_a_second_round_expects_better_choices_later(two_stages):
    """Behind the door a better later choice pays 3 instead of 1.5, so the door is worth more."""
    decisions = two_stages.build()
    doors = []
    for rounds in (1, 2):
        trained = train_agent(
            "advantage_regression", decisions, SPEC, steps=9, seed=0,
            settings={"rounds": rounds, "discount": 1.0, "ridge": 1e-6},
        )  # fmt: skip
        assert trained.steps == rounds
        rows = np.array([[0, 1.0, 0, 20.0], [1, 0.0, 1, 20.0]])
        scores = trained.policy().batch_scores(np.zeros((1, 2)), rows, np.array([0, 2]))
        doors.append(scores[1] - scores[0])
    assert doors[1] > doors[0]


def test_the_best_behaviours_are_those_ahead_in_their_windows():
    """Easy windows are no advantage, and behaviours are kept whole until there are enough."""
    table = pl.DataFrame(
        {
            "episode": np.arange(6), "window": [0, 0, 0, 1, 1, 1],
            "behaviour": ["a", "b", "c", "a", "b", "c"],
            "return": [1.0, 2.0, 0.0, 101.0, 102.0, 100.0],
        }
    )  # fmt: skip
    assert best_behaviours(table, 0.1) == ["b"]
    assert best_behaviours(table, 0.34) == ["b", "a"]
    assert best_behaviours(table, 1.0) == ["b", "a", "c"]
    assert of_behaviours(table, ["b"]).tolist() == [False, True, False, False, True, False]


@pytest.mark.slow
def test_a_log_in_parts_gives_what_the_log_in_memory_gives(tiny_dataset):
    """Parts give every decision once, with all of its candidates, in any split."""
    dataset = ds.open(tiny_dataset)
    decisions = sample_decisions(
        dataset, "train", np.random.default_rng(0), Columns(64, more=("probabilities",))
    )
    settings = AdvantageSettings(ridge=0.01)
    stored, held = log_of_dataset(dataset, "train"), log_of_decisions(decisions)
    maps = fit_maps(decisions, dataset.spec, Logs(held), PHI)
    kept = np.ones(len(stored.episodes), bool)
    found = [fit_advantages(log, kept, maps, settings) for log in (stored, held)]
    np.testing.assert_allclose(found[0].theta, found[1].theta, rtol=1e-4, atol=1e-9)
    r2 = explained(stored, kept, maps, settings, found[0])
    assert r2 == pytest.approx(found[0].r2, abs=1e-6)
    some = np.arange(len(kept)) % 2 == 0
    assert sum(len(s) for s in stored.chunks(some)) == int(
        dataset.episodes("train").filter(pl.Series(some))["steps"].sum()
    )


def test_probabilities_are_those_among_the_kept_candidates(tiny_dataset):
    """Probabilities sum to 1 over the mask, whole or cut, and a decision's bytes include them."""
    dataset = ds.open(tiny_dataset)
    whole = sample_decisions(
        dataset, "train", np.random.default_rng(0), Columns(64, more=("probabilities",))
    )
    assert whole.probabilities is not None
    rows = np.arange(len(whole))
    np.testing.assert_allclose(whole.probabilities[rows, whole.choice], whole.propensity, rtol=1e-5)
    cut = sample_decisions(
        dataset, "train", np.random.default_rng(0), Columns(3, more=("probabilities",))
    )
    assert cut.probabilities is not None
    assert (cut.drawn > 3).any()
    np.testing.assert_allclose(cut.probabilities.sum(axis=1), 1.0, rtol=1e-5)
    assert not cut.probabilities[~cut.mask].any()
    more = Columns(3, more=("probabilities",)).bytes(dataset.spec) - Columns(3).bytes(dataset.spec)
    assert cut.probabilities.nbytes == more * len(cut)


def test_targets_are_the_behaviour_tilted_to_its_gains():
    """Targets are b exp(f / spread) by hand, and b where nothing is better."""
    decisions = _skewed(50, np.random.default_rng(2))
    _, maps, _, found = _fit(decisions)
    plain = advantage_cloning.improved(decisions, maps, found, 0.0)
    np.testing.assert_allclose(plain, decisions.probabilities, rtol=1e-4, atol=1e-7)
    tilted = advantage_cloning.improved(decisions, maps, found, 2.0)
    mask = decisions.mask[0]
    f = maps.candidates.expand(decisions.candidates[0][mask]) @ found.theta
    assert decisions.probabilities is not None
    expected = decisions.probabilities[0][mask] * np.exp(2.0 * f / found.spread)
    np.testing.assert_allclose(tilted[0][mask], expected / expected.sum(), rtol=1e-3)


def test_unusable_logs_and_settings_are_named(noisy_episodes):
    decisions = noisy_episodes.build()
    with pytest.raises(DatasetError, match="without the probabilities"):
        log_of_decisions(dataclasses.replace(decisions, probabilities=None))
    with pytest.raises(DatasetError, match="only some decisions"):
        log_of_decisions(decisions.take(np.arange(5)))
    with pytest.raises(RecipeError, match="share"):
        AdvantageSettings(share=0.0)
    with pytest.raises(RecipeError, match="discount is 2"):
        AdvantageSettings(discount=2.0)
    for name, wrong in (
        ("advantage_regression", {"network.hidden": [4]}),
        ("advantage_cloning", {"improvement": -1.0}),
    ):
        with pytest.raises(RecipeError, match=r"linear score|improvement is -1"):
            train_agent(name, decisions, SPEC, steps=1, seed=0, settings=wrong)
