"""Tests of drawn futures: they keep what an episode has shown, and read nothing else."""

import numpy as np
import pytest

from hindcast.pipeline.scenarios.multicluster import SCENARIO
from hindcast.pipeline.scenarios.multicluster import layout as m
from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig
from hindcast.pipeline.scenarios.multicluster.initial_state import lay_out
from hindcast.pipeline.scenarios.multicluster.instances import (
    STREAMING,
    draw_applications,
    draw_intervals,
    draw_needs,
)
from hindcast.pipeline.simulation.arrays import begin_episode, make_step_arrays
from hindcast.pipeline.simulation.kernel import RUNNING, TERMINATED
from hindcast.pipeline.simulation.seeds import generator

PATTERNS = ("uniform", "bernoulli", "beta")
PER_APPLICATION = (
    m.ARRIVAL_AT, m.EXECUTION_AT, m.PERIOD_AT, m.RUNS_AT, m.FIRST_NEED_AT, m.POOLED_AT, m.ORDER_AT,
    m.ENDED_AT, m.CLUSTER_AT, m.DEPLOYED_AT, m.DUE_AT, m.DONE_AT, m.MISSED_AT, m.ACTUAL_AT,
    m.LEFT_AT, m.LINK_AT, m.MISSES_BEFORE_AT, m.MISSES_UNTIL_AT,
)  # fmt: skip


def settings(**more):
    return MulticlusterConfig(applications=60, clusters=(300, 500), foresight=True, **more)


def instance_of(config, seed):
    applications = draw_applications(config, generator(seed, "applications"))
    return lay_out(config, 0, applications), applications


def played(instance, config, decisions, seed):
    """Return an episode after random choices."""
    spec = SCENARIO.spec(config, "misses_and_delay")
    episode, arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)
    rng = generator(seed, "choices")
    for _ in range(decisions):
        n = SCENARIO.observe(*episode)
        status = SCENARIO.step(episode.ints, episode.floats, rng.integers(n), arrays.step_outputs)
        assert status == RUNNING
    return episode


def copy_of(episode, future):
    """Return the copied memory of an episode with a drawn future."""
    ints = np.concatenate([episode.ints, np.zeros(future.room, np.int64)])
    floats = episode.floats.copy()
    future.replace(ints, floats)
    return ints, floats


def needs_shown(ints, applications):
    """Return the places of the needs that an episode has shown, found run by run."""
    first, places = ints[m.NEEDS_AT], []
    for a in range(ints[m.ARRIVED]):
        deployed = ints[ints[m.DEPLOYED_AT] + a] >= 0
        queued = ints[ints[m.DONE_AT] + a]
        if deployed and ints[ints[m.DUE_AT] + a] <= ints[m.NOW]:
            queued += 1
        known = queued if applications.category[a] == STREAMING else applications.runs[a]
        at = first + ints[ints[m.FIRST_NEED_AT] + a]
        places += range(at, at + min(known, applications.runs[a]))
    return places


@pytest.mark.parametrize("arrivals", PATTERNS)
@pytest.mark.parametrize("decisions", [0, 23, 50])
def test_what_an_episode_has_shown_stays(arrivals, decisions):
    config = settings(arrivals=arrivals)
    instance, applications = instance_of(config, 4)
    episode = played(instance, config, decisions, 5)
    ints, floats = copy_of(episode, instance.futures(generator(6, "future")))
    known, arrived = ints[m.APPLICATIONS], ints[m.ARRIVED]
    assert (ints[: m.INT_HEADER] == episode.ints[: m.INT_HEADER]).all()
    for place in PER_APPLICATION:
        at = ints[place]
        assert (ints[at : at + arrived] == episode.ints[at : at + arrived]).all()
    shown = needs_shown(episode.ints, applications)
    assert (ints[shown] == episode.ints[shown]).all()
    after = ints[m.CAPABILITY_AT]
    assert (ints[after : len(episode.ints)] == episode.ints[after:]).all()
    rows = floats[ints[m.ROWS_AT] :].reshape(known, m.SHOWN)
    assert (rows[:arrived] == episode.floats[ints[m.ROWS_AT] :].reshape(rows.shape)[:arrived]).all()
    later = ints[ints[m.ARRIVAL_AT] + arrived : ints[m.ARRIVAL_AT] + known]
    assert (later > ints[m.NOW]).all()
    assert (np.diff(later) >= 0).all()


@pytest.mark.parametrize("arrivals", PATTERNS)
def test_nothing_that_is_not_known_is_read(arrivals):
    """Two episodes that differ only in what they have not shown get the same future."""
    config = settings(arrivals=arrivals)
    instance, applications = instance_of(config, 1)
    episode = played(instance, config, 30, 2)
    other = episode._replace(ints=episode.ints.copy(), floats=episode.floats.copy())
    ints, arrived, known = other.ints, episode.ints[m.ARRIVED], episode.ints[m.APPLICATIONS]
    assert 0 < arrived < known
    shown = set(needs_shown(ints, applications))
    first_later = ints[ints[m.FIRST_NEED_AT] + arrived]
    for at in range(ints[m.NEEDS_AT], ints[m.NEEDS_AT] + first_later):
        if at not in shown:
            ints[at] = 777
    for place in (m.ARRIVAL_AT, m.EXECUTION_AT, m.PERIOD_AT, m.RUNS_AT, m.DUE_AT):
        ints[ints[place] + arrived : ints[place] + known] = 9999
    other.floats[ints[m.DEADLINE_AT] + arrived : ints[m.DEADLINE_AT] + known] = 3.0
    other.floats[ints[m.ROWS_AT] + arrived * m.SHOWN :] = -1.0
    future = instance.futures(generator(3, "future"))
    one, two = copy_of(episode, future), copy_of(other, future)
    later = slice(ints[m.NEEDS_AT] + first_later, ints[m.CAPABILITY_AT])  # no run refers to these
    one[0][later] = two[0][later] = 0
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


def test_the_same_moment_has_one_future_and_every_draw_another():
    config = settings()
    instance, _ = instance_of(config, 1)
    episode = played(instance, config, 20, 2)
    rng = generator(3, "future")
    first, second = instance.futures(rng), instance.futures(rng)
    again = copy_of(episode, first)
    np.testing.assert_array_equal(copy_of(episode, first)[0], again[0])
    assert first.room != second.room or (copy_of(episode, second)[0] != again[0]).any()


@pytest.mark.parametrize("arrivals", PATTERNS)
def test_a_copy_can_be_played_to_its_end(arrivals):
    """No observation has more candidates than the future says."""
    config = settings(arrivals=arrivals)
    instance, _ = instance_of(config, 7)
    spec = SCENARIO.spec(config, "misses_and_delay")
    for decisions in (0, 15, 45):
        episode, rng = played(instance, config, decisions, 8), generator(decisions, "future")
        for _ in range(4):
            future = instance.futures(rng)
            ints, floats = copy_of(episode, future)
            room = max(future.capacity, instance.capacity)
            copy = begin_episode(spec, type(instance)(ints, floats, room))
            outputs, status, most = np.zeros(16), RUNNING, 0
            while status == RUNNING:
                n = SCENARIO.observe(*copy)
                most = max(most, n)
                status = SCENARIO.step(copy.ints, copy.floats, rng.integers(n), outputs)
            assert status == TERMINATED
            assert most <= room
            assert copy.ints[m.FINISHED] == copy.ints[m.APPLICATIONS]


@pytest.mark.parametrize(
    "changed",
    [
        {"execution": (1, 1000), "categories": (1.0, 0.0, 0.0)},
        {"execution": (1, 30), "categories": (0.5, 0.0, 0.5), "period": (1.0, 9.0)},
    ],
)
def test_the_calendar_has_room_for_longer_tasks_and_periods_of_a_future(changed):
    """Few applications are drawn, so those of a future are often longer than all of them."""
    config = MulticlusterConfig(
        applications=4, clusters=(30,), tasks=(1, 9), batches=(2, 4), **changed
    )
    spec, longer = SCENARIO.spec(config, "misses"), 0
    for seed in range(12):
        instance, own = instance_of(config, seed)
        future = instance.futures(generator(seed, "future"))
        ahead = np.maximum(future.later.execution, future.later.period - future.later.execution)
        assert ahead.max() < instance.ints[m.SLOTS]
        longer += ahead.max() > max(own.execution.max(), own.period.max())
        ints, floats = copy_of(begin_episode(spec, instance), future)
        needs = ints[-len(future.later.needs) :].copy()
        room = max(instance.capacity, future.capacity)
        copy = begin_episode(spec, type(instance)(ints, floats, room))
        outputs, status = np.zeros(16), RUNNING
        while status == RUNNING:
            SCENARIO.observe(*copy)
            status = SCENARIO.step(copy.ints, copy.floats, 0, outputs)
        assert status == TERMINATED

        def of(place, ints=copy.ints):
            return ints[ints[place] : ints[place] + config.applications]

        assert (of(m.ACTUAL_AT) >= of(m.EXECUTION_AT) * of(m.RUNS_AT)).all()
        np.testing.assert_array_equal(copy.ints[-len(needs) :], needs)
    assert longer > 0


def test_the_calendar_of_the_default_settings_is_that_of_the_instance():
    """Lookahead draws its futures from the sum of the memory, so the layout must not change."""
    instance, applications = instance_of(MulticlusterConfig(), 1)
    assert instance.ints[m.SLOTS] == applications.period.max() + 1


def test_the_next_arrival_is_drawn_given_the_time_since_the_last_one():
    """The mean step of the next arrival is that of intervals longer than the time that passed."""
    config = settings()
    instance, _ = instance_of(config, 1)
    episode = played(instance, config, 20, 2)
    arrived = episode.ints[m.ARRIVED]
    last = episode.ints[episode.ints[m.ARRIVAL_AT] + arrived - 1]
    passed = episode.ints[m.NOW] - last
    rng = generator(11, "future")
    following = []
    for _ in range(300):
        ints, _ = copy_of(episode, instance.futures(rng))
        following.append(ints[ints[m.ARRIVAL_AT] + arrived] - last)
    intervals = draw_intervals(config, 100_000, rng)
    expected = intervals[intervals > passed]
    assert min(following) > passed
    error = expected.std() / np.sqrt(len(following))
    assert np.mean(following) == pytest.approx(expected.mean(), abs=4 * error)


def test_needs_follow_the_profile():
    profile = np.zeros((2, 10))
    profile[0, 0] = profile[1, 9] = 1.0
    needs = draw_needs(
        np.array([100, 100]), np.array([True, False]), profile, np.array([2, 1]), generator(0, "n")
    )
    assert needs.tolist() == [55, 55, 100]
