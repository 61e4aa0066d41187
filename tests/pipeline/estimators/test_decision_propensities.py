"""Tests of intervals, quantiles and propensity tests on simulated decisions."""

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.decisions import (
    LoggedDecisions,
    best,
    interval_of,
    uniform,
    values,
    weights,
)
from hindcast.pipeline.estimators.decisions.estimated import isotonic
from hindcast.pipeline.estimators.decisions.intervals import t_interval
from hindcast.pipeline.estimators.decisions.propensity_tests import Tally, candidate_sets
from hindcast.pipeline.statistics.distributions import (
    beta_quantile,
    chi_square_tail,
    t_quantile,
)


def simulated(rng, decisions, spread=1.0, epsilon=0.1, binary=False):
    """Return decisions of a softmax logger, the feature x, and a function of tampered ones."""
    lengths = rng.integers(2, 6, decisions)
    owner = np.repeat(np.arange(decisions), lengths)
    x = rng.uniform(size=len(owner))
    ids = rng.permuted(np.tile(np.arange(6), (decisions, 1)), axis=1)
    ids = ids[np.arange(6) < lengths[:, None]]
    p = np.exp(-3 * spread * x)
    p = (1 - epsilon) * p / np.bincount(owner, p)[owner] + epsilon / lengths[owner]
    starts = np.cumsum(lengths) - lengths
    below = np.cumsum(p) - np.concatenate([[0], np.cumsum(p)])[starts][owner]
    chosen = np.bincount(owner, below < rng.uniform(size=decisions)[owner], decisions)
    chosen = np.minimum(chosen.astype(np.int64), lengths - 1)
    taken = starts + chosen
    mean = 0.8 - 0.6 * x[taken]
    reward = (rng.uniform(size=decisions) < mean) * 1.0 if binary else mean + rng.normal(
        0, 0.3, decisions)  # fmt: skip
    return LoggedDecisions.of(lengths, chosen, p[taken], reward, probability=p), x, ids


def result_of(e, sets):
    """Return the tests of decisions on sets of their candidates."""
    tally = Tally(float(e.weight.max(initial=1.0)))
    tally.add(e, sets)
    return tally.tests()


def alarm(e, x, ids):
    """Return the tests of decisions with a feature and six ids."""
    return result_of(e, candidate_sets(e, ids, {}, {"x": x}, [str(k) for k in range(6)]))


def tampered(e, propensity):
    return LoggedDecisions.of(np.diff(e.offsets), e.chosen, propensity, e.reward)


def no_false_alarm(seeds):
    worst = 0.0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        count = int(10 ** rng.uniform(2, 3 if len(seeds) < 100 else 4))
        log = simulated(rng, count, spread=rng.uniform(0, 4), epsilon=10 ** rng.uniform(-3, 0))
        tests = alarm(*log)
        assert not tests.contradicted, (seed, tests.e_value, tests.p_value)
        worst = max(worst, tests.e_value)
    assert worst > 0


@pytest.mark.slow
def test_sound_logs_are_not_contradicted():
    no_false_alarm(range(40))


@pytest.mark.nightly
def test_two_thousand_sound_logs_are_not_contradicted():
    no_false_alarm(range(2000))


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["scaled", "one over n", "wrong arm"])
def test_faults_are_found_in_every_log_of_400(fault):
    for seed in range(15):
        e, x, ids = simulated(np.random.default_rng(seed), 400, spread=1.5)
        if fault == "scaled":
            bad = tampered(e, 0.7 * e.propensity)
        elif fault == "one over n":
            bad = tampered(e, 1.0 / e.size)
        else:  # that of the next candidate
            other = e.offsets[:-1] + (e.chosen + 1) % e.size
            bad = tampered(e, e.probability[other])
        assert alarm(bad, x, ids).contradicted, seed


def test_one_over_n_has_a_mean_weight_of_1_and_is_found_by_the_sets():
    e, x, ids = simulated(np.random.default_rng(3), 400, spread=1.5)
    tests = alarm(tampered(e, 1.0 / e.size), x, ids)
    assert tests.mean_weight == pytest.approx(1.0)
    assert tests.mean_weight_se == pytest.approx(0.0, abs=1e-12)
    assert tests.most.name == "lowest x"


def test_the_e_value_of_two_decisions_in_the_head():
    """W of all is 2, then 1/2: the product at bet l is (1 + l)(1 - l / 2)."""
    e = LoggedDecisions.of([2, 2], [0, 0], [0.25, 1.0], [0.0, 0.0])
    tests = result_of(e, iter([("all", np.arange(4))]))
    bets = np.arange(1, 20) / 20
    assert tests.e_value == pytest.approx(((1 + bets) * (1 - bets / 2)).mean())
    assert tests.mean_weight == pytest.approx(1.25)


def test_estimates_are_right_on_average():
    truth, found = [], []
    for seed in range(60):
        e, x, _ = simulated(np.random.default_rng(seed), 300)
        target = best(e, -x)
        truth.append((0.8 - 0.6 * x[target > 0]).mean())
        found.append(values(e, target)["is"].value)
    difference = np.array(found) - truth
    assert abs(difference.mean()) < 3 * difference.std() / len(found) ** 0.5


@pytest.mark.nightly
@pytest.mark.parametrize("binary", [False, True])
def test_intervals_contain_the_truth(binary):
    """In 93 to 97 % of 1,000 logs; three standard errors of a share are 2 %."""
    inside = 0
    for seed in range(1000):
        e, _, _ = simulated(np.random.default_rng(seed), 400, binary=binary)
        target = uniform(e)
        truth = 0.8 - 0.6 * 0.5
        value = values(e, target)["snis"]
        interval = interval_of(e, value, weights(e, target))
        inside += interval.low <= truth <= interval.high
    assert 0.91 <= inside / 1000 <= 0.98


def test_quantiles():
    """Against published tables."""
    assert t_quantile(0.975, 11) == pytest.approx(2.200985, abs=1e-6)
    assert t_quantile(0.95, 1) == pytest.approx(6.313752, abs=1e-6)
    assert t_quantile(0.975, 1e7) == pytest.approx(1.959964, abs=1e-5)
    assert beta_quantile(0.025, 3, 9) == pytest.approx(0.060218, abs=1e-6)
    assert chi_square_tail(3.841459, 1) == pytest.approx(0.05, abs=1e-7)
    assert chi_square_tail(18.307038, 10) == pytest.approx(0.05, abs=1e-7)


def test_the_t_interval_of_twelve_decisions():
    interval = t_interval(0.64, 0.11565, 12)
    assert (interval.low, interval.high) == pytest.approx((0.3855, 0.8945), abs=1e-4)
    assert not t_interval(0.64, 0.0, 12).shown


def test_few_rewards_have_an_exact_interval_or_none():
    """One click in ten decisions of weight 1: the interval of 1 of 10."""
    reward = np.zeros(10)
    reward[0] = 1.0
    e = LoggedDecisions.of([2] * 10, [0] * 10, [0.5] * 10, reward)
    found = values(e, uniform(e))
    w = weights(e, uniform(e))
    interval = interval_of(e, found["is"], w)
    assert (interval.low, interval.high) == pytest.approx((0.002529, 0.445016), abs=1e-6)
    assert interval.kind == "clopper_pearson"
    assert not interval_of(e, found["snis"], w).shown


def test_isotonic_regression_pools_violators():
    fitted = isotonic(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 0.0, 1.0]))
    assert fitted(np.array([1.0, 2.5, 4.0])).tolist() == [0.0, 0.5, 1.0]


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="propensity"):
        LoggedDecisions.of([2, 2], [0, 1], [0.5, 0.0], [1, 1])
    with pytest.raises(InputError, match="chosen"):
        LoggedDecisions.of([2, 2], [0, 2], [0.5, 0.5], [1, 1])
    with pytest.raises(InputError, match="reward has the shape"):
        LoggedDecisions.of([2, 2], [0, 1], [0.5, 0.5], [1])
