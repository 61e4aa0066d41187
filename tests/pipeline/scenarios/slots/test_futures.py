"""Tests of drawn futures: they keep what an episode has shown, and read nothing else."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.scenarios.slots import SCENARIO
from hindcast.pipeline.scenarios.slots import layout as m
from hindcast.pipeline.scenarios.slots.config import SlotsConfig, sizes_of
from hindcast.pipeline.scenarios.slots.instances import draw_jobs
from hindcast.pipeline.simulation.arrays import begin_episode, make_step_arrays
from hindcast.pipeline.simulation.kernel import FRESH, RUNNING, TERMINATED
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload

PER_JOB = (m.ARRIVE_AT, m.LENGTH_AT, m.CPU_AT, m.MEMORY_AT, m.ENTER_AT, m.FINISH_AT)
MOVED = {m.JOBS, *PER_JOB, m.RUNNING_AT, m.INVERSE_AT}  # places of the header that a future changes


def no_workload():
    return Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))


def instance_of(config, seed=1):
    return SCENARIO.instance(config, "slowdown", no_workload(), 0, generator(seed, "window"))


def played(instance, config, decisions, seed=2):
    """Return an episode after random feasible choices."""
    spec = SCENARIO.spec(config, "slowdown")
    episode, arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)
    rng = generator(seed, "choices")
    for _ in range(decisions):
        n = SCENARIO.observe(*episode)
        choice = rng.choice(np.flatnonzero(episode.feasible[:n]))
        status = SCENARIO.step(episode.ints, episode.floats, choice, arrays.step_outputs)
        assert status == RUNNING
    return episode


def copy_of(episode, future):
    """Return the copied memory of an episode with a drawn future."""
    ints = np.concatenate([episode.ints, np.zeros(future.room, np.int64)])
    floats = np.concatenate([episode.floats, np.zeros(future.float_room)])
    future.replace(ints, floats)
    return ints, floats


def of(ints, place, number=None):
    """Return the block of a copy or an episode with one entry per job."""
    return ints[ints[place] : ints[place] + (ints[m.JOBS] if number is None else number)]


@pytest.mark.parametrize("decisions", [0, 25, 60])
def test_what_an_episode_has_shown_stays(decisions):
    config = SlotsConfig(arrival_rate=0.9)
    instance = instance_of(config)
    episode = played(instance, config, decisions)
    ints, floats = copy_of(episode, instance.futures(generator(3, "future")))
    arrived, before = ints[m.NEXT], len(episode.ints)
    header = [place for place in range(m.INT_HEADER) if place not in MOVED]
    np.testing.assert_array_equal(ints[header], episode.ints[header])
    np.testing.assert_array_equal(ints[m.INT_HEADER : before], episode.ints[m.INT_HEADER :])
    np.testing.assert_array_equal(floats[: len(episode.floats)], episode.floats)
    for place in (*PER_JOB, m.RUNNING_AT):
        kept = of(ints, place, arrived)
        np.testing.assert_array_equal(kept, of(episode.ints, place, arrived))
    later = of(ints, m.ARRIVE_AT)[arrived:]
    assert (later > ints[m.NOW]).all()
    assert (np.diff(later) > 0).all()
    inverse = floats[ints[m.INVERSE_AT] : ints[m.INVERSE_AT] + ints[m.JOBS]]
    np.testing.assert_array_equal(inverse, 1.0 / of(ints, m.LENGTH_AT))


def test_nothing_that_is_not_known_is_read():
    """Two episodes that differ only in the jobs to come get the same future."""
    config = SlotsConfig()
    instance = instance_of(config)
    episode = played(instance, config, 30)
    arrived = episode.ints[m.NEXT]
    assert 0 < arrived < episode.ints[m.JOBS]
    other = episode._replace(ints=episode.ints.copy(), floats=episode.floats.copy())
    for place in (m.ARRIVE_AT, m.LENGTH_AT, m.CPU_AT, m.MEMORY_AT):
        of(other.ints, place)[arrived:] = 777
    other.floats[other.ints[m.INVERSE_AT] + arrived :] = 0.5
    future = instance.futures(generator(4, "future"))
    one, two = copy_of(episode, future), copy_of(other, future)
    assert one[0][m.JOBS] == two[0][m.JOBS]
    for place in (*PER_JOB, m.RUNNING_AT):
        np.testing.assert_array_equal(of(one[0], place), of(two[0], place))
    moved = len(episode.floats)
    np.testing.assert_array_equal(one[1][moved:], two[1][moved:])


def test_the_same_moment_has_one_future_and_every_draw_another():
    config = SlotsConfig()
    instance = instance_of(config)
    episode = played(instance, config, 20)
    rng = generator(5, "future")
    first, second = instance.futures(rng), instance.futures(rng)
    again = copy_of(episode, first)
    np.testing.assert_array_equal(copy_of(episode, first)[0], again[0])
    lengths = [of(copy_of(episode, one)[0], m.LENGTH_AT).tolist() for one in (first, second)]
    assert lengths[0] != lengths[1]


def test_later_jobs_have_the_distribution_of_the_settings():
    config = SlotsConfig(arrival_rate=0.3, steps=200)
    instance = instance_of(config)
    episode, rng = played(instance, config, 40), generator(6, "future")
    arrived, left = episode.ints[m.NEXT], config.steps - episode.ints[m.NOW]
    copies = [copy_of(episode, instance.futures(rng))[0] for _ in range(300)]
    counts = np.array([ints[m.JOBS] - arrived for ints in copies])
    error = np.sqrt(left * 0.3 * 0.7 / len(counts))
    assert counts.mean() == pytest.approx(0.3 * left, abs=4 * error)
    lengths = np.concatenate([of(ints, m.LENGTH_AT)[arrived:] for ints in copies])
    drawn = draw_jobs(dataclasses.replace(config, steps=20_000), sizes_of(config), rng).length
    assert (lengths >= 10).mean() == pytest.approx((drawn >= 10).mean(), abs=0.02)


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_a_copy_can_be_played_to_its_end(rate):
    config = SlotsConfig(arrival_rate=rate)
    instance = instance_of(config, seed=7)
    spec, numbers = SCENARIO.spec(config, "slowdown"), set()
    for decisions in (0, 15, 45):
        episode, rng = played(instance, config, decisions), generator(decisions, "future")
        for _ in range(4):
            future = instance.futures(rng)
            ints, floats = copy_of(episode, future)
            ints[FRESH] = 0  # the buffers of the copy are empty
            copy = begin_episode(spec, type(instance)(ints, floats, future.capacity))
            outputs, status = np.zeros(16), RUNNING
            while status == RUNNING:
                n = SCENARIO.observe(*copy)
                choice = np.flatnonzero(copy.feasible[:n])[0]
                status = SCENARIO.step(copy.ints, copy.floats, choice, outputs)
            assert status == TERMINATED
            assert (of(copy.ints, m.FINISH_AT) > 0).all()
            numbers.add(int(ints[m.JOBS] - instance.ints[m.JOBS]))
    if rate < 1.0:
        assert min(numbers) < 0 < max(numbers)


def test_when_all_jobs_are_there_the_future_is_empty():
    config = SlotsConfig(arrival="all_at_once")
    instance = instance_of(config)
    episode = played(instance, config, 5)
    ints, _ = copy_of(episode, instance.futures(generator(8, "future")))
    assert ints[m.JOBS] == episode.ints[m.JOBS] == episode.ints[m.NEXT]


def test_no_futures_without_a_distribution():
    assert instance_of(SlotsConfig(compat="deeprm")).futures is None
