"""Tests of fitted Q evaluation: close to the truth, independent of infeasible rows."""

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators import LoggedEpisodes, Settings, estimate
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.ope import fqe
from hindcast.policies.ope.basis import fit_basis, linear_features
from hindcast.policies.ope.episodes import WholeEpisodes

SPEC = Spec(
    scenario="toy", objective="gain",
    context=(Feature("stage", "index", 0, 1, "which decision"),
             Feature("behind", "yes/no", 0, 1, "whether the door was taken")),
    candidates=(Feature("gain", "units", -3, 3, "what it pays"),
                Feature("door", "yes/no", 0, 1, "whether it leads to more")),
    reward_terms=(), outcomes=(Outcome("cost", "units", "minus the return"),),
)  # fmt: skip
FIRST = np.array([[1.0, 0.0], [0.0, 1.0]])  # the gain now, or the door
SECOND = {1: np.array([[3.0, 0.0], [0.0, 0.0]]), 0: np.array([[0.5, 0.0], [0.0, 0.0]])}
QUICK = fqe.FQESettings(
    steps=600, warm=300, learning_rate=3e-3, minibatch=128,
    network=NetworkSettings(hidden=(32,), context=True),
)  # fmt: skip


def two_stages(n=300, seed=0, forbidden=False):
    """Return N episodes of two fair choices; `forbidden` adds an infeasible candidate."""
    rng = np.random.default_rng(seed)
    context, candidates, feasible, choice, reward = [], [], [], [], []
    for _ in range(n):
        door, later = (int(c) for c in rng.integers(2, size=2))
        for stage, rows, chosen in ((0, FIRST, door), (1, SECOND[door], later)):
            context.append([stage, door * stage])
            extra = [[99.0, 99.0]] if forbidden else np.zeros((0, 2))
            candidates.append(np.concatenate([rows, extra]))
            feasible += [True, True] + [False] * forbidden
            choice.append(chosen)
            reward.append(rows[chosen, 0])
    size = 2 + forbidden
    return WholeEpisodes(
        offsets=np.arange(n + 1) * 2, rows=np.arange(2 * n + 1) * size,
        context=np.array(context, np.float32),
        candidates=np.concatenate(candidates).astype(np.float32),
        feasible=np.array(feasible), probabilities=np.where(feasible, 0.5, 0.0).astype(np.float32),
        choice=np.array(choice), propensity=np.full(2 * n, 0.5), reward=np.array(reward),
        elapsed_s=np.full(2 * n, 2.0), table=pl.DataFrame({"window": np.arange(n)}),
    )  # fmt: skip


def policy(log, first, second):
    """Return probabilities (V,): `first` of the door, `second` of the gain behind either choice."""
    size = int(log.rows[1])
    found = np.zeros(len(log.candidates))
    found[0::size] = np.where(np.arange(log.decisions) % 2 == 0, 1.0 - first, second)
    found[1::size] = np.where(np.arange(log.decisions) % 2 == 0, first, 1.0 - second)
    return found


def true_values(log, first, second, discount=1.0):
    """Return values (D,) of the logged choices of that policy."""
    q = log.reward.copy()
    door = log.choice[0::2]
    q[0::2] += discount * np.where(door == 1, 3.0, 0.5) * second
    return q


@pytest.mark.slow
@pytest.mark.parametrize("policy_of", [(0.9, 0.8), (0.2, 0.1)], ids=["good", "bad"])
def test_a_network_finds_the_values_of_either_policy(policy_of):
    log = two_stages()
    probabilities = policy(log, *policy_of)
    start = fqe.warm_start(log, SPEC, QUICK)
    q, v = fqe.fit_fqe(log, probabilities, SPEC, QUICK, start).values(log, probabilities)
    assert np.abs(q - true_values(log, *policy_of)).max() < 0.15
    first, second = policy_of
    expected = (1 - first) * (1.0 + 0.5 * second) + first * 3.0 * second
    assert v[0] == pytest.approx(expected, abs=0.1)


@pytest.mark.slow
def test_without_a_warm_start_it_finds_them_too():
    log = two_stages()
    probabilities = policy(log, 0.9, 0.8)
    settings = fqe.FQESettings(
        steps=1200, warm=0, learning_rate=3e-3, network=QUICK.network, relative=False
    )
    start = fqe.warm_start(log, SPEC, settings)
    q, _v = fqe.fit_fqe(log, probabilities, SPEC, settings, start).values(log, probabilities)
    assert np.abs(q - true_values(log, 0.9, 0.8)).max() < 0.2


@pytest.mark.slow
def test_discount_per_second():
    """Two seconds between the decisions at .5 a second leave a quarter."""
    log = two_stages()
    settings = fqe.FQESettings(
        steps=600, warm=300, learning_rate=3e-3, network=QUICK.network, discount=0.5,
        discount_per="second",
    )  # fmt: skip
    probabilities = policy(log, 0.9, 0.8)
    start = fqe.warm_start(log, SPEC, settings)
    q, _v = fqe.fit_fqe(log, probabilities, SPEC, settings, start).values(log, probabilities)
    assert np.abs(q - true_values(log, 0.9, 0.8, discount=0.25)).max() < 0.15


@pytest.mark.slow
def test_infeasible_candidates_change_nothing():
    """An infeasible third row with absurd features leaves the values equal bit for bit."""
    found = []
    for forbidden in (False, True):
        log = two_stages(60, forbidden=forbidden)
        probabilities = policy(log, 0.9, 0.8)
        settings = fqe.FQESettings(steps=30, warm=30, network=QUICK.network)
        start = fqe.warm_start(log, SPEC, settings)
        q, v = fqe.fit_fqe(log, probabilities, SPEC, settings, start).values(log, probabilities)
        found.append((q, v))
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-12)


@pytest.mark.slow
def test_same_seed_same_values_and_seeds_are_averaged():
    log = two_stages(60)
    probabilities = policy(log, 0.9, 0.8)

    def values(seeds, seed=0):
        settings = fqe.FQESettings(steps=20, warm=20, seeds=seeds, network=QUICK.network)
        start = fqe.warm_start(log, SPEC, settings, seed)
        fitted = fqe.fit_fqe(log, probabilities, SPEC, settings, start, seed)
        return fitted, fitted.values(log, probabilities)[0]

    _one, first = values(2)
    two, second = values(2)
    assert np.array_equal(first, second)
    alone = [fqe.FittedQ((n,), two.middle, two.scale).values(log, probabilities)[0]
             for n in two.networks]  # fmt: skip
    assert second == pytest.approx(np.mean(alone, axis=0))
    assert not np.array_equal(alone[0], alone[1])
    assert not np.array_equal(values(2, seed=1)[1], first)


def tabular(log, probabilities):
    """Return LoggedEpisodes with one indicator per (stage, behind, choice)."""
    n = log.decisions
    state = (log.context[:, 0] * (1 + log.context[:, 1])).astype(int)  # 0, 1 or 2
    size = int(log.rows[1])
    features, expected = np.zeros((n, 6)), np.zeros((n, 6))
    features[np.arange(n), 2 * state + log.choice] = 1.0
    for c in range(2):
        expected[np.arange(n), 2 * state + c] = probabilities[c::size]
    following = np.zeros_like(expected)
    following[:-1] = expected[1:]
    following[log.last] = 0.0
    return LoggedEpisodes(
        log.offsets, log.propensity, probabilities[log.chosen], log.reward, features=features,
        next_features=following, initial_features=expected[log.offsets[:-1]],
    )  # fmt: skip


def closed_form(e):
    """Return coefficients b (d,) of q = phi'b by LSTD-Q (Lagoudakis & Parr 2003)."""
    change = e.features - e.step_discount[:, None] * e.next_features
    return np.linalg.solve(e.features.T @ change, e.features.T @ e.reward)


def test_closed_form_is_exact_for_a_table():
    log = two_stages()
    probabilities = policy(log, 0.9, 0.8)
    episodes = tabular(log, probabilities)
    q = episodes.features @ closed_form(episodes)
    assert q == pytest.approx(true_values(log, 0.9, 0.8), abs=1e-10)


def test_closed_form_and_minimax_weights_agree():
    """With the same linear classes both are LSTD-Q (Uehara et al. 2020)."""
    log = two_stages()
    episodes = tabular(log, policy(log, 0.7, 0.4))
    direct = float((episodes.initial_features @ closed_form(episodes)).mean())
    weighted = estimate("mwl", episodes, Settings(resamples=10, ridge=0.0)).value
    assert weighted == pytest.approx(direct, abs=1e-10)


def test_linear_features_are_expected_under_the_policy():
    """Loops over a constant, the standardised candidate and context give the same."""
    log = two_stages(5, forbidden=True)
    probabilities = policy(log, 0.9, 0.8)
    basis = fit_basis(log, SPEC)
    found = linear_features(basis, log, probabilities)
    rows = basis.candidates.expand(log.candidates)
    context = basis.context.expand(log.context)
    for d in range(log.decisions):
        chosen = [1.0, *rows[log.chosen[d]], *context[d]]
        assert found["features"][d] == pytest.approx(chosen, abs=1e-6)
        after = np.zeros(basis.size)
        if d % 2 == 0:
            own = slice(log.rows[d + 1], log.rows[d + 2])
            mean = probabilities[own] @ rows[own]
            after = np.concatenate([[1.0], mean, context[d + 1]])
        assert found["next_features"][d] == pytest.approx(after, abs=1e-6)


@pytest.mark.parametrize(
    "settings",
    [{"seeds": 0}, {"discount": 1.2}, {"network": NetworkSettings((8, 8), kind="deepsets")}],
    ids=["seeds", "discount", "sets"],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match="FQE"):
        fqe.FQESettings(**settings)
