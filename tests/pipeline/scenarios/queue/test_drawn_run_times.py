"""Tests of drawn run times, against the table of the specification in plain Python."""

import numpy as np
import pytest

from hindcast.pipeline.scenarios.queue.drawn import run_times
from hindcast.pipeline.scenarios.queue.layout import LATER
from tests.pipeline.forecast.made_past import made_record, scheduled

TABLE = [(0.9763, 23.69, 96), (0.605, 3.8, 12), (0.5486, 3.1, 12), (0.9913, 39.89, 256),
         (0.99, 1.0, 128)]  # fmt: skip


def contexts_in_words(user, cpu, requested):
    known = user >= 0
    return [
        (user, cpu, requested) if known else None, (user, requested) if known else None,
        user if known else None, int(np.floor(2 * np.log2(requested))), "all",
    ]  # fmt: skip


def plain_distribution(log, job, now, elapsed):
    """Return {run time: weight} of a job (user, cpu, requested)."""
    rows = sorted(range(len(log.run)), key=lambda i: (log.start[i] + log.run[i], i))
    done = [i for i in rows if log.start[i] + log.run[i] <= now]
    left, found = 1.0, []
    for level, (decay, strength, kept) in enumerate(TABLE):
        mine = contexts_in_words(*job)[level]
        runs = [
            i for i in done
            if mine is not None
            and contexts_in_words(log.user[i], log.cpu[i], log.requested[i])[level] == mine
        ]  # fmt: skip
        weights = [decay**k for k in range(min(len(runs), kept))]
        total = sum(weights)
        for weight, i in zip(weights, reversed(runs), strict=False):
            value = log.run[i] / log.requested[i] * job[2]
            found.append((value, left * weight / (total + strength)))
        left *= strength / (total + strength)
    found += [(part * job[2] / 10, left / 10) for part in range(1, 11)]
    return [(value, weight) for value, weight in found if value > elapsed]


def compiled_distribution(contexts, job, now, elapsed):
    first, last = contexts.spans(*(np.array([of]) for of in job))
    values, sums = np.zeros(600), np.zeros(600)
    count = run_times.distribution(
        contexts.runs, first[0], last[0], now, job[2], elapsed, values, sums
    )
    return values[:count], np.diff(sums[:count], prepend=0.0)


@pytest.fixture(scope="module")
def log():
    return scheduled(made_record(300), "fcfs_easy")


def contexts(log):
    return run_times.contexts_of(log.user, log.cpu, log.requested, log.run, log.start + log.run)


@pytest.mark.parametrize("elapsed", [0, 1000])
@pytest.mark.parametrize("job", [(1, 4, 7200), (4, 1, 1800), (-1, 4, 7200), (99, 3, 5000)])
def test_the_weights_are_those_of_the_table(log, job, elapsed):
    """Also for an unknown user, and for one with a request that the log does not have."""
    now = int(log.arrive[200])
    want = plain_distribution(log, job, now, elapsed)
    values, weights = compiled_distribution(contexts(log), job, now, elapsed)
    np.testing.assert_allclose(values, [value for value, _ in want])
    np.testing.assert_allclose(weights, [weight for _, weight in want])
    if elapsed == 0:
        assert weights.sum() == pytest.approx(1.0)


def test_a_run_that_outlasts_all_known_ones_goes_on_a_little(log):
    values, weights = compiled_distribution(contexts(log), (1, 4, 7200), 10**9, 10**6)
    assert values.tolist() == [1.01 * 10**6 + 30, 1.1 * 10**6 + 300]
    assert weights.tolist() == [0.5, 0.5]


def test_draws_follow_the_weights_and_outlast_what_has_run(log):
    now, job = int(log.arrive[200]), tuple(np.array([of, of]) for of in (2, 4, 7200))
    uniforms = np.random.default_rng(0).random((4000, 2))
    drawn = run_times.draw_run_times(contexts(log), now, job, np.array([0, 2500]), uniforms)
    for place, elapsed in enumerate((0, 2500)):
        want = plain_distribution(log, (2, 4, 7200), now, elapsed)
        mean = sum(v * w for v, w in want) / sum(w for _, w in want)
        assert drawn[:, place].min() > elapsed
        assert drawn[:, place].mean() == pytest.approx(mean, rel=0.03)


def test_a_run_whose_end_is_not_known_lends_nothing():
    known = run_times.ends_of(np.array([0, 5]), np.array([10, 20]), np.array([False, True]))
    assert known.tolist() == [10, LATER]
    one = np.array([0, 0])
    found = run_times.contexts_of(one, one + 1, one + 100, np.array([10, 20]), known)
    values, _ = compiled_distribution(found, (0, 1, 100), 10**9, 0)
    assert set(values[:5]) == {10.0}
