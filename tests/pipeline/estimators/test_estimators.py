"""Tests of estimators on problems with known values: exact, unbiased, and equal to their papers."""

from dataclasses import replace

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError, UnknownName
from hindcast.pipeline.estimators import (
    ESTIMATORS,
    LoggedEpisodes,
    LoggedPolicies,
    Settings,
    estimate,
)
from hindcast.pipeline.estimators.doubly_robust import temporal_differences
from tests.pipeline.estimators.conftest import CHOICES, HORIZON, STATES

QUICK = Settings(resamples=50)
EXACT = Settings(resamples=50, ridge=0.0)
WEIGHTED = ["is", "pdis", "snis", "snpdis", "paired_is", "paired_snis"]


def some_q():
    """Return a wrong value function."""
    return np.random.default_rng(3).normal(size=(HORIZON + 1, STATES, CHOICES))


@pytest.mark.parametrize("name", WEIGHTED)
def test_on_policy_every_weighting_is_the_mean_return(process, name):
    """If the evaluated policy is the behaviour, all weights are one."""
    process.evaluation = process.behaviour
    paths = [path for _p, path in process.trajectories()]
    log = process.log(paths, group=np.arange(len(paths)) % 4)
    found = estimate(name, log, QUICK)
    assert found.value == pytest.approx(log.returns.mean(), abs=1e-12)
    assert found.difference == pytest.approx(0.0, abs=1e-12)
    assert found.ess == pytest.approx(len(paths))


def test_on_policy_tempered_is_the_mean_return(process):
    """With equal weights every power gives the mean of the window."""
    process.evaluation = process.behaviour
    paths = [path for _p, path in process.trajectories()]
    log = process.log(paths, group=np.arange(len(paths)) % 4)
    assert estimate("tempered", log, QUICK).value == pytest.approx(log.returns.mean(), abs=1e-12)


@pytest.mark.parametrize("name", ["is", "pdis", "dr"])
def test_expectation_over_all_trajectories_is_the_value(process, name):
    """IS, PDIS, and DR with a wrong value function are unbiased."""
    trajectories = process.trajectories()
    probability = np.array([p for p, _path in trajectories])
    assert probability.sum() == pytest.approx(1.0, abs=1e-12)
    log = process.log([path for _p, path in trajectories], q=some_q())
    contributions = estimate(name, log, QUICK).contributions
    assert probability @ contributions == pytest.approx(process.value, abs=1e-12)


@pytest.mark.slow
def test_paired_is_stays_unbiased(process):
    """Over all pairs of independent episodes of one window, the expectation is the value."""
    trajectories = process.trajectories()
    chosen = [t for t in trajectories if t[1][0][1] == 0]  # same start, as within one window
    probability = np.array([p for p, _path in chosen]) * 2.0
    _q, v = process.values()
    total = 0.0
    for p, (_one, first) in zip(probability, chosen, strict=True):
        for q, (_two, second) in zip(probability, chosen, strict=True):
            log = process.log([first, second], group=np.zeros(2, np.int64))
            total += p * q * ESTIMATORS["paired_is"].draft(log, QUICK).value
    assert total == pytest.approx(v[0, 0], abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["snis", "snpdis", "wdr", "is", "pdis", "dr"])
def test_consistent(process, name):
    """If trajectories are as frequent as they are probable, ratio estimators are exact."""
    log = process.log(process.repeated(), q=some_q())
    assert estimate(name, log, QUICK).value == pytest.approx(process.value, abs=1e-12)


def test_minimax_weights_are_exact_with_a_tabular_basis(process):
    """It is exact with the log's exact occupancy and a feature per (step, state, choice)."""
    log = process.log(process.repeated(), tabular=True)
    found = estimate("mwl", log, EXACT)
    assert found.value == pytest.approx(process.value, abs=1e-10)
    assert found.contributions.mean() == pytest.approx(process.value, abs=1e-10)


def test_minimax_weights_are_ratios_of_visits(process):
    """In the limit, the weights are discounted visits of the policy over visits of the log."""
    paths = process.repeated()
    log = process.log(paths, tabular=True)
    phi, n = log.features, len(log)
    change = phi - log.step_discount[:, None] * log.next_features
    alpha = np.linalg.solve(change.T @ phi / n, log.initial_features.mean(axis=0))
    visits = np.zeros((HORIZON, STATES))
    for s, p in process.starts():
        visits[0, s] += p
    for t in range(HORIZON - 1):
        for s in range(STATES):
            for a in range(CHOICES):
                for after, p in process.next_states(s, a):
                    if after is not None:
                        visits[t + 1, after] += visits[t, s] * process.evaluation[s, a] * p
    policy = (
        visits[:, :, None]
        * process.evaluation
        * process.discount ** np.arange(HORIZON)[:, None, None]
    )
    logged = phi.sum(axis=0).reshape(policy.shape) / n
    assert alpha.reshape(policy.shape) == pytest.approx(policy / logged, abs=1e-9)


def test_direct_method_with_true_values_is_exact(process):
    q, _v = process.values()
    log = process.log(process.repeated(), q=q)
    assert estimate("dm", log, QUICK).value == pytest.approx(process.value, abs=1e-12)


def test_an_empty_interval_of_the_direct_method_is_warned_of(five):
    """If all first states have equal values, resampling has no spread, and a warning says so."""
    alike = dict(five, v=[0.5] * 12)
    assert "spread shows nothing" in estimate("dm", logged(alike), QUICK).warnings[0]
    assert "spread shows nothing" not in " ".join(estimate("dm", logged(five), QUICK).warnings)


def test_true_values_miss_nothing_on_any_log(process):
    """Temporal differences average zero under the behaviour, whatever policy is evaluated."""
    q, _v = process.values()
    log = process.log(process.repeated(), q=q)
    missed = log.sums(log.discounts * temporal_differences(log))
    assert missed.mean() == pytest.approx(0.0, abs=1e-12)
    assert estimate("dm", log, QUICK).warnings == ()


def test_values_that_drift_are_warned_of(process):
    """Values that are a constant too high at every step but the end cause a warning."""
    q, _v = process.values()
    drifting = q + 4.0 * np.arange(HORIZON + 1, 0, -1)[:, None, None]
    found = estimate("dm", process.log(process.repeated(), q=drifting), QUICK)
    assert "on the log's own transitions" in found.warnings[0]


def test_doubly_robust_with_true_values_has_no_variance(deterministic_process):
    """Only the choices are random, and the true values explain their effect."""
    q, v = deterministic_process.values()
    paths = [path for _p, path in deterministic_process.trajectories()]
    log = deterministic_process.log(paths, q=q)
    starts = np.array([path[0][1] for path in paths])
    for name in ("dr", "wdr"):
        assert estimate(name, log, QUICK).contributions == pytest.approx(v[0, starts], abs=1e-12)


def test_true_values_make_doubly_robust_calmer_than_importance_sampling(process):
    q, _v = process.values()
    log = process.log(process.repeated(), q=q)
    spread = {n: estimate(n, log, QUICK).contributions.var() for n in ("is", "pdis", "dr")}
    assert spread["dr"] < spread["pdis"] < spread["is"]


def naive(five):
    """Evaluate the formulas as printed in the papers, in loops over plain numbers."""
    episodes, at = [], 0
    for n in five["lengths"]:
        episodes.append(list(range(at, at + n)))
        at += n
    gamma, n = five["discount"], len(episodes)
    horizon = max(five["lengths"])
    rho = []  # cumulative weights; the last one is repeated after the end
    for rows in episodes:
        product, own = 1.0, []
        for t in range(horizon):
            if t < len(rows):
                product *= five["evaluation"][rows[t]] / five["behaviour"][rows[t]]
            own.append(product)
        rho.append(own)
    returns = [sum(gamma**t * five["reward"][i] for t, i in enumerate(rows)) for rows in episodes]
    at_step = [sum(rho[e][t] for e in range(n)) for t in range(horizon)]
    found = dict.fromkeys(("is", "pdis", "snis", "snpdis", "dr", "wdr", "dm"), 0.0)
    for e, rows in enumerate(episodes):
        found["is"] += rho[e][-1] * returns[e] / n
        found["snis"] += rho[e][-1] * returns[e] / sum(own[-1] for own in rho)
        found["dm"] += five["v"][rows[0]] / n
        for t, i in enumerate(rows):
            reward, q, v = (five[name][i] for name in ("reward", "q", "v"))
            now, before = rho[e][t], rho[e][t - 1] if t else 1.0
            w = now / at_step[t]
            w_before = before / at_step[t - 1] if t else 1.0 / n
            found["pdis"] += gamma**t * now * reward / n
            found["snpdis"] += gamma**t * w * reward
            found["wdr"] += gamma**t * (w * (reward - q) + w_before * v)
        # Jiang & Li 2016, equation 10: backwards through the episode
        value = 0.0
        for i in reversed(rows):
            ratio = five["evaluation"][i] / five["behaviour"][i]
            value = five["v"][i] + ratio * (five["reward"][i] + gamma * value - five["q"][i])
        found["dr"] += value / n
    return found


def logged(five, **more):
    return LoggedEpisodes(
        offsets=np.concatenate([[0], np.cumsum(five["lengths"])]),
        discount=five["discount"],
        **{k: np.array(v) for k, v in five.items() if k not in {"lengths", "discount"}},
        **more,
    )


@pytest.mark.parametrize("name", ["is", "pdis", "snis", "snpdis", "dr", "wdr", "dm"])
def test_five_episodes_by_the_papers_formulas(five, name):
    found = estimate(name, logged(five), QUICK)
    assert found.value == pytest.approx(naive(five)[name], rel=1e-12)
    assert found.contributions.mean() == pytest.approx(found.value, rel=1e-12)


def test_five_episodes_by_hand(five):
    """The five episodes have weights 8/5, 3/4, 3, 0, .672 and returns -.8, 3, 2.79, 6.5, .928."""
    log = logged(five)
    assert np.exp(log.log_weights) == pytest.approx([1.6, 0.75, 3.0, 0.0, 0.672])
    assert log.returns == pytest.approx([-0.8, 3.0, 2.79, 6.5, 0.928], abs=1e-12)
    found = estimate("is", log, QUICK)
    total = 1.6 * -0.8 + 0.75 * 3.0 + 3.0 * 2.79 + 0.672 * 0.928
    assert found.value == pytest.approx(total / 5)
    assert estimate("snis", log, QUICK).value == pytest.approx(total / 6.022)
    assert found.ess == pytest.approx(6.022**2 / (1.6**2 + 0.75**2 + 9.0 + 0.672**2))
    assert found.max_weight == pytest.approx(3.0)
    assert found.nonzero == pytest.approx(0.8)
    assert found.mean_weight == pytest.approx(6.022 / 5)


def test_discount_per_second(five):
    """Every reward is multiplied by discount^(seconds since the start)."""
    seconds = np.arange(12.0)
    log = logged(five, elapsed_s=seconds, discount_per="second")
    expected = [
        sum(
            0.9 ** sum(seconds[rows[0] : i]) * five["reward"][i]
            for i in range(rows[0], rows[0] + rows[1])
        )
        for rows in zip(np.cumsum([0, *five["lengths"]])[:-1], five["lengths"], strict=True)
    ]
    assert log.returns == pytest.approx(expected)


def test_ended_episodes_stay_in_the_denominator():
    """Of two equal episodes one ends after the first decision, so later rewards count one half."""
    log = LoggedEpisodes(
        offsets=np.array([0, 1, 3]), behaviour=np.full(3, 0.5), evaluation=np.full(3, 0.5),
        reward=np.array([0.0, 0.0, 8.0]),
    )  # fmt: skip
    assert estimate("snpdis", log, QUICK).value == pytest.approx(4.0)


@pytest.mark.parametrize("name", ["snis", "snpdis", "wdr", "paired_snis", "tempered"])
def test_thousands_of_decisions_neither_overflow_nor_vanish(name):
    """Weights of e^(+-3000) keep their ratios."""
    rng = np.random.default_rng(0)
    steps = 3000
    behaviour = np.concatenate([np.full(steps, 0.3), np.full(2 * steps, 0.9)])
    evaluation = np.concatenate([np.full(steps, 0.9), np.full(2 * steps, 0.3)])
    zero = np.zeros(3 * steps)
    reward = rng.normal(size=3 * steps)
    reward.reshape(3, steps)[:, :100] = 0.0  # while the other episodes still have some weight
    log = LoggedEpisodes(
        offsets=np.array([0, steps, 2 * steps, 3 * steps]), behaviour=behaviour,
        evaluation=evaluation, reward=reward, q=zero, v=zero,
        group=np.zeros(3, np.int64),
    )  # fmt: skip
    settings = Settings(resamples=50, tempered=0.01)
    assert estimate(name, log, settings).value == pytest.approx(log.returns[0], rel=1e-9)


def test_overflow_is_said():
    log = LoggedEpisodes(
        offsets=np.array([0, 2000]), behaviour=np.full(2000, 0.1), evaluation=np.full(2000, 1.0),
        reward=np.zeros(2000),
    )  # fmt: skip
    assert any("was cut" in w for w in estimate("is", log, QUICK).warnings)


def test_tempered_weights_keep_the_share_that_was_asked_for():
    """With a share of a quarter, two of the eight episodes in a window stay effective."""
    rng = np.random.default_rng(1)
    behaviour = np.full(8 * 200, 0.5)
    log = LoggedEpisodes(
        offsets=np.arange(9) * 200, behaviour=behaviour,
        evaluation=rng.uniform(0.05, 0.95, 1600), reward=np.zeros(1600),
        group=np.zeros(8, np.int64),
    )  # fmt: skip
    assert estimate("tempered", log, QUICK).ess == pytest.approx(2.0, rel=1e-6)


def test_paired_snis_is_blind_to_what_a_window_costs_everybody(five):
    """A constant added to a window's returns adds its mean to the estimate, for any weights."""
    group = np.array([0, 0, 1, 1, 1])
    log = logged(five, group=group)
    shift = np.array([100.0, 100.0, -30.0, -30.0, -30.0])
    moved = dict(five, reward=np.array(five["reward"], float))
    moved["reward"][log.first] += shift
    before, after = (
        estimate("paired_snis", logged(f, group=group), QUICK).value for f in (five, moved)
    )
    assert after - before == pytest.approx(shift.mean())


def test_warnings_name_what_is_wrong(five):
    """Warnings name few effective episodes, a dominating one, and choices never logged."""
    log = logged(five, covered=np.full(12, 0.9))
    said = " ".join(estimate("is", log, Settings(resamples=50, fewest=4.0)).warnings)
    assert "10.0% of the policy's probability" in said
    assert "weights leave 2.9 of 5 episodes" in said
    lonely = dict(five, evaluation=[0.0] * 11 + [0.4])
    lonely["evaluation"][:2] = [0.4, 0.5]
    assert "one episode carries 100% of the weight" in " ".join(
        estimate("snis", logged(lonely), QUICK).warnings
    )
    assert estimate("is", logged(dict(five, evaluation=five["behaviour"])), QUICK).warnings == ()


def test_a_mean_weight_is_explained_by_its_side(five):
    """Propensities that are too small make weights too large; missing choices make them small."""
    behaviour = np.array(five["behaviour"])
    small = estimate("is", logged(dict(five, behaviour=behaviour / 2, evaluation=behaviour)), QUICK)
    assert "propensities are too small" in " ".join(small.warnings)
    few = estimate("is", logged(dict(five, evaluation=behaviour / 2)), QUICK)
    assert "propensities are too large" in " ".join(few.warnings)
    assert "too small" not in " ".join(few.warnings)


def test_tempered_weights_of_impossible_episodes_are_zero_without_a_warning(five):
    """The power 0 is tried on the way; a warning of numpy would fail this test."""
    evaluation = np.array(five["evaluation"], float)
    evaluation[:2] = 0.0
    found = estimate("tempered", logged(dict(five, evaluation=evaluation), group=np.zeros(5, int)),
                     Settings(resamples=50, tempered=0.9))  # fmt: skip
    assert np.isfinite(found.value)


def test_an_impossible_policy_has_no_self_normalised_value(five):
    impossible = logged(dict(five, evaluation=[0.0] * 12))
    found = estimate("snis", impossible, QUICK)
    assert np.isnan(found.value)
    assert "every weight is zero" in found.warnings[0]
    assert estimate("is", impossible, QUICK).value == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"behaviour": np.full(12, np.nan)}, "12 of 12 propensities are unknown"),
        ({"behaviour": np.zeros(12)}, "not above 0"),
        ({"evaluation": np.full(12, 1.5)}, "not between 0 and 1"),
        ({"reward": np.full(12, np.inf)}, "reward holds a number that is not finite"),
        ({"q": np.zeros(3)}, "q has 3 rows, expected 12"),
        ({"lengths": [2, 1, 3, 2, 3]}, "offsets of episodes"),
        ({"discount": 1.5}, "discount is 1.5"),
    ],
    ids=["unknown", "zero", "large", "infinite", "short", "offsets", "discount"],
)
def test_bad_input_is_refused(five, change, message):
    with pytest.raises(InputError, match=message):
        logged({**five, **change})


@pytest.mark.parametrize("name", ["dm", "mwl", "paired_is"])
def test_an_estimator_says_what_it_lacks(five, name):
    log = logged({k: v for k, v in five.items() if k not in {"q", "v"}})
    with pytest.raises(InputError):
        estimate(name, log, QUICK)


def test_unknown_estimator_names_the_nearest(five):
    with pytest.raises(UnknownName, match="did you mean 'pdis'"):
        estimate("pdiss", logged(five), QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_same_input_same_estimate(process, name):
    q, _v = process.values()
    paths = process.repeated()
    log = process.log(paths, q=q, group=np.arange(len(paths)) % 7, tabular=True)
    policies = LoggedPolicies(1.0 - np.eye(3), np.arange(len(log)) % 3, log.group, log.returns)
    log = replace(log, policies=policies, to_policies=np.array([0.5, 1.0, 2.0]))
    one, two = (estimate(name, log, QUICK, np.random.default_rng(4)) for _ in range(2))
    assert one.bootstrap == two.bootstrap
    assert one.bootstrap[0] <= one.value <= one.bootstrap[1]
