"""Tests of whole slots: starts at once equal single decisions, and can be undone."""

import numpy as np
import pytest

from hindcast.flows.papers.osdec.network import HISTORY
from hindcast.flows.papers.osdec.slotwise import (
    LAGS,
    Slots,
    begin_of_slot,
    begun_slots,
    play_slot,
)
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance as instance_of
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable import make_instance
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.dynamics import step
from hindcast.pipeline.scenarios.deferrable.features import MOMENT, ROW, spec
from hindcast.pipeline.scenarios.deferrable.instances import Jobs
from hindcast.pipeline.scenarios.deferrable.observation import observe
from hindcast.pipeline.scenarios.deferrable.slotwise_action import stop_at_misfit
from hindcast.pipeline.simulation.arrays import begin_episode
from hindcast.pipeline.simulation.kernel import TERMS
from tests.pipeline.scenarios.deferrable.reference import prefix

RECIPE = load_recipe("deferrable-base-v1", ["config.horizon=30"])
SPEC = spec(RECIPE.config, "revenue")


def instances(count):
    scenario, workload = load_scenario("deferrable"), load_source(RECIPE)
    return [instance_of(RECIPE, scenario, workload, w) for w in range(count)]


class Watched:
    """An episode with its observation."""

    def __init__(self, instance):
        self.arrays = begin_episode(SPEC, instance)
        self.ints, self.floats = self.arrays[:2]
        self.step_outputs = np.zeros(TERMS + len(SPEC.reward_terms))

    def observe(self):
        n = observe(*self.arrays)
        context, _image, candidates, feasible = self.arrays[2:]
        return context, candidates[:n], feasible[:n]

    def begin(self):
        context, candidates, _ = self.observe()
        moment, rows = np.empty_like(context), np.zeros_like(candidates)
        history, counts = np.empty((LAGS + 1, HISTORY)), np.empty(3, np.int64)
        begin_of_slot(context, candidates, moment, rows, history, counts)
        return moment, rows[: counts.sum()], history, counts


def scores_of(rng, count, kind):
    return rng.integers(0, 3, count).astype(float) if kind == "ties" else rng.normal(size=count)


@pytest.mark.parametrize("kind", ["ties", "normal"])
def test_a_slot_starts_the_prefix_of_its_scores(kind):
    """`prefix`, `stop_at_misfit` over single decisions, and `play_slot` are one action."""
    rng = np.random.default_rng(0)
    stopped = 0
    for instance in instances(3):
        whole, single = Watched(instance), Watched(instance)
        for _ in range(30):
            context, candidates, _ = single.observe()
            rows = candidates[candidates[:, ROW.is_startable] == 1.0]
            jobs, free = rows[:, -1].astype(int), context[MOMENT.free_cores]
            scores = scores_of(rng, len(jobs), kind)
            expected = jobs[prefix(scores, rows[:, 0], free)]
            stopped += len(expected) < len(jobs)
            before = whole.ints[m.STARTED]
            totals = np.zeros_like(whole.step_outputs)
            taken = play_slot(whole.ints, whole.floats, scores, whole.step_outputs, totals)
            assert abs(taken) == len(expected) + 1
            assert whole.ints[m.STARTED] - before == len(expected)
            started, paid = [], np.zeros_like(totals)
            by_job = dict(zip(jobs, scores, strict=True))
            slot = single.ints[m.SLOT]
            while single.ints[m.SLOT] == slot:
                _, candidates, feasible = single.observe()
                own = np.array([by_job.get(int(job), 0.0) for job in candidates[:, -1]])
                stop_at_misfit(candidates, feasible, own)
                choice = int(np.argmax(np.where(feasible, own, -np.inf)))
                if choice < len(own) - 1:
                    started.append(int(candidates[choice, -1]))
                step(single.ints, single.floats, choice, single.step_outputs)
                paid += single.step_outputs
            assert started == list(expected)
            np.testing.assert_array_equal(paid, totals)
        assert taken < 0  # the result is negative after the last slot
        keep = np.ones(len(instance.ints), bool)
        keep[[0, m.MOVED]] = False  # the flag of an observation
        np.testing.assert_array_equal(whole.ints[keep], single.ints[keep])
    assert stopped > 20


def test_the_slot_as_it_began_is_read_off_any_observation_in_it():
    rng = np.random.default_rng(1)
    compared = 0
    for instance in instances(3):
        watched = Watched(instance)
        for _ in range(30):
            first = watched.begin()
            context = watched.observe()[0]
            assert first[0].tolist() == context.tolist()
            slot = watched.ints[m.SLOT]
            while watched.ints[m.SLOT] == slot:
                feasible = watched.observe()[2].copy()
                moment, *others = watched.begin()
                known = np.r_[: LAGS + 1, MOMENT.running_cores, MOMENT.free_cores, -2, -1]
                np.testing.assert_array_equal(moment[known], first[0][known])
                for one, other in zip(others, first[1:], strict=True):
                    np.testing.assert_array_equal(one, other)
                compared += 1
                choice = int(rng.choice(np.flatnonzero(feasible)))
                step(watched.ints, watched.floats, choice, watched.step_outputs)
    assert compared > 150


def test_the_order_of_the_rows_does_not_matter():
    watched = Watched(instances(1)[0])
    for _ in range(5):
        totals = np.zeros_like(watched.step_outputs)
        play_slot(watched.ints, watched.floats, np.arange(99.0), watched.step_outputs, totals)
    plain = watched.begin()
    context, candidates, _ = watched.observe()
    turned = candidates[np.random.default_rng(0).permutation(len(candidates))]
    rows, counts = np.zeros_like(candidates), np.empty(3, np.int64)
    history, moment = np.empty((LAGS + 1, HISTORY)), np.empty_like(context)
    begin_of_slot(context, turned, moment, rows, history, counts)
    np.testing.assert_array_equal(rows[: counts.sum()], plain[1])
    np.testing.assert_array_equal(history, plain[2])
    assert (counts > 0).all()


def test_slots_of_a_log_are_those_of_their_observations():
    """Slots of a log, float32 and padded, equal those of the observations bit for bit."""
    watched = [Watched(one) for one in instances(3)]
    for one in watched:
        for _ in range(8):
            _, _, feasible = one.observe()
            step(one.ints, one.floats, int(np.flatnonzero(feasible)[0]), one.step_outputs)
    alone = [one.begin() for one in watched]
    seen = [one.observe() for one in watched]
    longest = max(len(candidates) for _, candidates, _ in seen) + 2
    padded = np.zeros((3, longest, seen[0][1].shape[1]), np.float32)
    for one, (_, candidates, _) in zip(padded, seen, strict=True):
        one[: len(candidates)] = candidates
    found = begun_slots(np.stack([context for context, _, _ in seen]), padded)
    for b, (moment, rows, history, counts) in enumerate(alone):
        np.testing.assert_array_equal(found.context[b], moment)
        np.testing.assert_array_equal(found.rows[b, : len(rows)], rows)
        assert not found.rows[b, len(rows) :].any()
        np.testing.assert_array_equal(found.history[b], history)
        assert found.counts[b].tolist() == counts.tolist()
    with pytest.raises(HindcastError, match="not observations of deferrable"):
        begun_slots(found.context, padded[:2])


def test_the_history_of_a_slot_by_hand():
    """Capacity is 5, 5, 3: a job of 4 cores runs from slot 0 and is one core too many in slot 2."""
    jobs = Jobs(
        cores=np.array([4, 1, 2]), duration=np.array([4, 1, 3]),
        earliest=np.array([0, 1, 3]), latest=np.array([0, 2, 3]),
        submitted=np.array([0, 1, 1]),
    )  # fmt: skip
    config = DeferrableConfig(horizon=4)
    watched = Watched(make_instance(config, "revenue", jobs, np.array([5, 5, 3, 6])))
    totals = np.zeros_like(watched.step_outputs)
    for scores in ([1.0], []):  # the second slot starts nothing: its job still waits
        held = np.array(scores) if scores else np.array([np.nan])
        if scores:
            play_slot(watched.ints, watched.floats, held, watched.step_outputs, totals)
        else:
            close = watched.observe()[1].shape[0] - 1
            step(watched.ints, watched.floats, close, watched.step_outputs)
    _, rows, history, counts = watched.begin()
    assert counts.tolist() == [1, 1, 1]
    assert rows[:, -1].tolist() == [1, 0, 2]
    # oldest first; slots before the first one have its capacity
    assert history[:, 0].tolist() == [5, 5, 5, 5, 5, 3]
    assert history[:, 1].tolist() == [0, 0, 0, 4, 0, 0]  # started two slots ago
    assert history[:, 2].tolist() == [0, 0, 0, 1, 2, 0]  # submitted then
    assert history[:, 3].tolist() == [0, 0, 0, 4, 1.5, 0]
    assert history[:, 4].tolist() == [0, 0, 0, 4, 2, 0]
    assert history[:, 5].tolist() == [0, 0, 0, 0, 0, 1]


def test_slots_together_are_slots_alone():
    """Each episode of a batch ends as it does alone, and its rewards have the same sum."""
    rng = np.random.default_rng(3)
    three = instances(3)
    scores = rng.normal(size=(30, 3, 200))
    together = Slots(SPEC, three)
    paid = np.zeros(3)
    for t in range(30):
        together.see()
        assert together.play(scores[t]) == (t == 29)
        paid += together.paid
    episodes = together.episodes()
    for e, instance in enumerate(three):
        alone = Slots(SPEC, [instance])
        for t in range(30):
            alone.see()
            alone.play(scores[t, e : e + 1])
        (own,) = alone.episodes()
        assert own.steps == episodes[e].steps
        assert own.total == episodes[e].total == pytest.approx(paid[e])
        np.testing.assert_array_equal(own.outcomes, episodes[e].outcomes)


def test_episodes_of_different_lengths_are_refused():
    jobs = Jobs(*(np.zeros(0, np.int64) for _ in range(5)))
    both = [
        make_instance(DeferrableConfig(horizon=n), "revenue", jobs, np.full(n, 5)) for n in (3, 4)
    ]
    with pytest.raises(HindcastError, match="different horizons"):
        Slots(SPEC, both)
