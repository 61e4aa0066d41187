"""Tests that every agent solves a problem whose optimum is known, and is repeatable."""

import dataclasses
from functools import cache

import numpy as np
import pytest

from hindcast.pipeline.errors import DatasetError, InputError, RecipeError, UnknownName
from hindcast.policies.offline import agent, anywhere
from tests.policies.logs import SPEC
from tests.policies.trainings import train_agent
from tests.representatives import nightly_but

SMALL = {"hidden": (16,), "quadratic": False, "context": True}
FAST = {
    "behaviour_cloning": {"learning_rate": 1e-2, "minibatch": 128, "network": SMALL},
    "trajectory_preference": {"learning_rate": 1e-2},
    "dqn": {"learning_rate": 1e-2, "network": SMALL, "target_update_interval": 20},
    "nfq": {"learning_rate": 1e-2, "network": SMALL},
    "double_dqn": {"learning_rate": 1e-2, "network": SMALL, "target_update_interval": 20},
    "cql": {"learning_rate": 1e-2, "network": SMALL, "target_update_interval": 20, "alpha": 0.1},
} | {
    name: {"learning_rate": 1e-2, "network": SMALL, "target_update_interval": 20, "quantiles": 8}
    for name in ("qr_dqn", "qr_dqn_cql")
}
FLAT = {"quadratic": False}
LINEAR = {"advantage_regression", "preference_ensemble"}
AT_ONCE = {"advantage_regression"}  # solved in the first step, without a draw
Q_AGENTS = nightly_but({"cql"}, ["dqn", "nfq", "double_dqn", "cql", "qr_dqn", "qr_dqn_cql"])
EVERY_AGENT = nightly_but(  # one of each family
    {"behaviour_cloning", "double_dqn", "trajectory_preference", "iql", "advantage_regression"},
    anywhere(),
)


def _train(name, log, spec, steps=300, **more):
    return train_agent(
        name, log.build(), spec, steps=steps, seed=1, settings={**FAST.get(name, {}), **more}
    )


@pytest.mark.slow
def test_behaviour_cloning_imitates_the_logged_choices(imitated, spec, share_of_best):
    trained = _train("behaviour_cloning", imitated, spec)
    assert share_of_best(trained.policy()) > 0.95
    loss = [m.value for m in trained.metrics if m.metric == "loss"]
    assert loss[-1] < loss[0]


@pytest.mark.slow
def test_trajectory_preference_finds_what_made_episodes_better(noisy_episodes, spec, share_of_best):
    """Returns are noisy sums of gains, and the scorer learns to take the gain."""
    assert share_of_best(_train("trajectory_preference", noisy_episodes, spec).policy()) > 0.9


@pytest.mark.slow
def test_trajectory_preference_reads_an_outcome_by_its_direction(
    noisy_episodes, spec, share_of_best
):
    """`cost` is minus the return and better when lower, so the weights agree bit for bit."""
    by_return = _train("trajectory_preference", noisy_episodes, spec, steps=20)
    by_cost = _train("trajectory_preference", noisy_episodes, spec, steps=20, outcome="cost")
    assert _same(by_return, by_cost)
    with pytest.raises(RecipeError, match="did you mean 'cost'"):
        _train("trajectory_preference", noisy_episodes, spec, outcome="cots")


@pytest.mark.slow
@pytest.mark.parametrize("name", Q_AGENTS)
def test_q_agents_take_the_largest_gain(name, bandit, spec, share_of_best):
    assert share_of_best(_train(name, bandit, spec).policy()) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", Q_AGENTS)
@pytest.mark.parametrize(("discount", "opens"), [(0.0, False), (1.0, True)])
def test_q_agents_look_ahead_as_far_as_the_discount(name, discount, opens, two_stages, spec):
    """With a discount of 0 the gain at hand wins, and with 1 the door to the larger gain."""
    policy = _train(name, two_stages, spec, discount=discount).policy()
    first = np.array([[0, 1.0, 0, 20.0], [1, 0.0, 1, 20.0]])
    scores = policy.batch_scores(np.array([[0.0, 20.0]]), first, np.array([0, 2]))
    assert bool(scores[1] > scores[0]) is opens


@pytest.mark.slow
def test_discount_per_second_counts_the_seconds(two_stages, spec):
    """With gamma .3 the door is not worth a second of waiting, but a tenth of a second."""
    decisions = two_stages.build()
    quick = dataclasses.replace(decisions, elapsed_s=np.full(len(decisions), 0.1))
    first = np.array([[0, 1.0, 0, 20.0], [1, 0.0, 1, 20.0]])
    opened = []
    for log in (decisions, quick):
        settings = {**FAST["double_dqn"], "discount": 0.3, "discount_per": "second"}
        trained = train_agent("double_dqn", log, spec, steps=300, seed=1, settings=settings)
        scores = trained.policy().batch_scores(np.array([[0.0, 20.0]]), first, np.array([0, 2]))
        opened.append(bool(scores[1] > scores[0]))
    assert opened == [False, True]


@pytest.fixture(scope="module")
def short(noisy_episodes):
    """Return a short training of each agent, which the tests of its properties share."""
    return cache(lambda name: _train(name, noisy_episodes, SPEC, steps=15))


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_AGENT)
def test_weights_are_those_of_the_seed_and_of_what_may_be_learned(name, noisy_episodes, short):
    """They agree bit for bit, whatever stands in rows behind the mask and in identifiers.

    Validation and its progress change nothing. Another seed gives other weights.
    """
    decisions, seen = noisy_episodes.build(), []
    changed = dataclasses.replace(
        decisions,
        candidates=np.where(decisions.mask[..., None], decisions.candidates, np.float32(np.inf)),
        next_candidates=np.where(
            decisions.next_mask[..., None], decisions.next_candidates, np.float32(np.inf)
        ),
    )
    changed.candidates[..., 0] = 77.0
    settings = FAST.get(name, {})
    again = train_agent(
        name, changed, SPEC, steps=15, seed=1, settings=settings, validation=decisions,
        progress=lambda done, of: seen.append((done, of)),
    )  # fmt: skip
    assert _same(short(name), again)
    logged = [m for m in again.metrics if not m.metric.startswith("validation")]
    assert logged == list(short(name).metrics)
    assert {"loss", "validation_loss"} <= {m.metric for m in again.metrics}
    assert all(np.isfinite(m.value) for m in again.metrics)
    assert seen[-1] == ((1, 1) if name in AT_ONCE else (15, 15))
    if name not in AT_ONCE:
        other = train_agent(name, decisions, SPEC, steps=15, seed=2, settings=settings)
        assert not _same(short(name), other)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_AGENT)
def test_what_is_learned_does_not_depend_on_k(name, noisy_episodes, short):
    """Padding to twice as many candidates changes preferences by no more than rounding."""
    rows = np.random.default_rng(0).normal(size=(5, 4)) ** 2
    wide = train_agent(
        name, noisy_episodes.build(12), SPEC, steps=15, seed=1, settings=FAST.get(name, {})
    )
    scores = [
        trained.policy().batch_scores(np.ones((1, 2)), rows, np.array([0, 5]))
        for trained in (short(name), wide)
    ]
    # a softmax does not determine the level
    np.testing.assert_allclose(*(given - given.mean() for given in scores), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_AGENT)
def test_a_constant_feature_gets_no_say(name, noisy_episodes):
    """A column that was constant in training must not act on new data through untrained weights."""
    decisions = noisy_episodes.build()
    decisions.candidates[..., 2] = 1.0
    trained = train_agent(
        name, decisions, SPEC, steps=5, seed=1,
        settings=FAST.get(name, {}) | {"network": FLAT if name in LINEAR else SMALL},
    )  # fmt: skip
    rows = np.array([[0, 1.0, 1.0, 20.0], [0, 1.0, 50.0, 20.0]])
    scores = trained.policy().batch_scores(np.ones((1, 2)), rows, np.array([0, 2]))
    assert scores[0] == scores[1]


def test_unusable_requests_are_named(noisy_episodes, spec):
    decisions = noisy_episodes.build()
    with pytest.raises(UnknownName, match="did you mean 'double_dqn'"):
        agent("double_dq")
    with pytest.raises(RecipeError, match="did you mean 'beta'"):
        train_agent(
            "trajectory_preference", decisions, spec, steps=1, seed=0, settings={"betta": 1.0}
        )
    with pytest.raises(InputError, match="steps is 0"):
        train_agent("behaviour_cloning", decisions, spec, steps=0, seed=0)
    unfollowed = dataclasses.replace(decisions, next_mask=None)
    with pytest.raises(DatasetError, match="needs what followed"):
        train_agent("cql", unfollowed, spec, steps=1, seed=0)
    narrow = dataclasses.replace(spec, candidates=spec.candidates[:2])
    with pytest.raises(DatasetError, match="4 candidate features, the scenario"):
        train_agent("cql", decisions, narrow, steps=1, seed=0)


def _same(one, other):
    return all(np.array_equal(v, other.weights[k]) for k, v in one.weights.items())
