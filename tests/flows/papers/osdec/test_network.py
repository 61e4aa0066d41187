"""Tests of slot scores: densities, started jobs, and changes that must not affect scores."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.stats import norm

from hindcast.flows.papers.osdec.network import BEYOND
from hindcast.flows.papers.osdec.policy import SlotScoresPolicy
from hindcast.flows.papers.osdec.rollouts import look, play_greedily
from hindcast.flows.papers.osdec.slotwise import Slots
from hindcast.flows.papers.osdec.torch_network import Scored
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.simulation.batched import BatchedEpisodes, run_batched
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import plays_episodes
from hindcast.policies.rollouts.lookahead import rollouts_of

CPU = torch.device("cpu")
VARIANTS = {
    "mlp": {"auxiliary": "none", "encoder": "mlp"},
    "pointer": {"auxiliary": "none", "encoder": "pointer"},
    "attention": {"auxiliary": "none"},
    "high": {"auxiliary": "high"},
    "low": {"auxiliary": "low"},
    "osdec": {"auxiliary": "both"},
}


def test_the_density_of_a_score_vector_is_scipys():
    """It is a sum of normal log-densities over the jobs that exist."""
    rng = np.random.default_rng(0)
    mean, deviation, scores = rng.normal(size=(3, 4, 6))
    deviation = np.abs(deviation) + 0.1
    present = rng.random((4, 6)) < 0.6
    scored = Scored(*map(torch.from_numpy, (mean, deviation, present)), torch.zeros(4))
    expected = np.where(present, norm.logpdf(scores, mean, deviation), 0.0).sum(axis=1)
    found = scored.log_probability(torch.from_numpy(scores)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_the_densities_of_a_rollout_are_those_of_its_batch(name, slot_net, slot_rollout):
    """Choices drawn slot by slot have the same likelihood when recomputed with another padding."""
    net, network, _ = slot_net(**VARIANTS[name])
    played = slot_rollout(net, network)
    which = torch.from_numpy(np.random.default_rng(1).permutation(len(played.scores))[:9])
    scored = net(played.seen[which])
    scores = played.scores[which][:, : scored.mean.shape[1]]
    now, old = scored.log_probability(scores), played.log_probability[which]
    np.testing.assert_allclose(now.detach(), old, rtol=1e-4, atol=1e-4)
    startable = played.seen.startable[which]
    for b, count in enumerate(startable):
        expected = norm.logpdf(
            scores[b, :count], scored.mean[b, :count].detach(), scored.deviation[b, :count].detach()
        ).sum()
        assert float(now[b].detach()) == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "pointer", "osdec"])
def test_the_policy_starts_decision_by_decision_what_the_slot_means(name, slot_net, slot_problem):
    """Without torch or memory, it plays the same episodes as slot by slot."""
    net, network, policy = slot_net(**VARIANTS[name])
    instances = [slot_problem.instance_of(w) for w in slot_problem.train]
    whole = play_greedily(net, network, slot_problem.spec, instances, CPU)
    rngs = [np.random.default_rng(0) for _ in instances]
    single = run_batched(
        slot_problem.scenario, slot_problem.spec, instances, Behaviour("s", policy), rngs
    )
    assert [e.steps for e in single] == [e.steps for e in whole]
    for one, other in zip(single, whole, strict=True):
        np.testing.assert_array_equal(one.outcomes, other.outcomes)
    assert len({e.total for e in whole}) > 1


@pytest.mark.parametrize("name", ["mlp", "pointer", "osdec"])
def test_scores_do_not_depend_on_what_else_is_asked(name, slot_net, slot_problem):
    """Scores agree bit for bit alone, in a batch, and when computed twice."""
    _, _, policy = slot_net(**VARIANTS[name])
    context, candidates, offsets = observations(slot_problem)
    together = policy.batch_scores(context, candidates, offsets)
    np.testing.assert_array_equal(policy.batch_scores(context, candidates, offsets), together)
    for b in range(len(context)):
        rows = slice(offsets[b], offsets[b + 1])
        fresh = SlotScoresPolicy(
            "t", policy.network, policy.weights, policy.features_context, policy.features_candidates
        )
        alone = fresh.batch_scores(
            context[b : b + 1], candidates[rows], np.array([0, offsets[b + 1] - offsets[b]])
        )
        np.testing.assert_array_equal(alone, together[rows])


def observations(problem, slots=3):
    """Return some observations of the beginnings of slots, ragged."""
    batch = BatchedEpisodes(
        problem.scenario, problem.spec, [problem.instance_of(w) for w in problem.train]
    )
    for _ in range(slots):
        seen = batch.observe()
        batch.step(np.diff(seen.offsets) - 1)  # close
    seen = batch.observe()
    return seen.context.copy(), seen.candidates.copy(), seen.offsets.copy()


@pytest.mark.parametrize("name", ["mlp", "pointer", "attention", "osdec"])
def test_the_order_of_the_jobs_changes_nothing(name, slot_net, slot_problem):
    """Scores move with their rows, and the closing row stays last."""
    _, _, policy = slot_net(**VARIANTS[name])
    context, candidates, offsets = observations(slot_problem)
    n = offsets[1]
    order = np.append(np.random.default_rng(2).permutation(n - 1), n - 1)
    plain = policy.batch_scores(context[:1], candidates[:n], np.array([0, n]))
    turned = policy.batch_scores(context[:1], candidates[:n][order], np.array([0, n]))
    np.testing.assert_array_equal(turned, plain[order])
    assert len(set(plain)) > 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pointer", "attention", "mlp"])
def test_padding_changes_nothing(name, slot_net, slot_rollout):
    """More empty rows, with any content, leave means, deviations and values unchanged."""
    net, network, _ = slot_net(**{**VARIANTS[name], "rows": 200})
    played = slot_rollout(net, network, 1)
    seen = played.seen[torch.arange(5)]
    width = seen.rows.shape[2]
    empty = torch.zeros(5, 7, width) if name == "mlp" else torch.full((5, 7, width), 3.0)
    more = dataclasses.replace(seen, rows=torch.cat([seen.rows, empty], dim=1))
    if name != "mlp":
        gap = torch.arange(more.rows.shape[1])[None, :, None] >= seen.jobs[:, None, None]
        more = dataclasses.replace(more, rows=torch.where(gap, 3.0, more.rows))
    for one, other in zip(scored(net(seen)), scored(net(more)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def scored(found: Scored):
    there = found.present.numpy()
    return (
        found.mean.detach().numpy()[there],
        found.deviation.detach().numpy()[there],
        found.value.detach().numpy(),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pointer", "attention"])
def test_the_network_is_equivariant(name, slot_net, slot_rollout):
    """Attention is equivariant, and so is the pointer on jobs in order of time."""
    net, network, _ = slot_net(**VARIANTS[name])
    played = slot_rollout(net, network, 1)
    which = int(played.seen.startable.argmax())
    seen = played.seen[torch.tensor([which])]
    count = int(seen.startable)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    rows = seen.rows.clone()
    rows[0, :count] = seen.rows[0, order]
    turned = net(dataclasses.replace(seen, rows=rows))
    plain = net(seen)
    if name == "attention":
        np.testing.assert_allclose(
            turned.mean.detach()[0], plain.mean.detach()[0, order], rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(turned.value.detach(), plain.value.detach(), rtol=1e-4)
    else:  # its encoder reads a sequence; policies bring the jobs into the order of time
        assert not np.allclose(turned.mean.detach()[0], plain.mean.detach()[0, order])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "pointer", "osdec"])
def test_jobs_that_are_not_read_come_last(name, slot_net, slot_rollout, slot_problem):
    net, network, policy = slot_net(**{**VARIANTS[name], "rows": 3})
    played = slot_rollout(net, network)
    found = net(played.seen)
    shown = torch.arange(found.mean.shape[1])
    beyond = (shown >= 3).expand_as(found.mean)
    assert (found.mean[beyond] == BEYOND).all()
    assert not found.present[beyond].any()
    context, candidates, offsets = observations(slot_problem)
    scores = policy.batch_scores(context, candidates, offsets)
    assert (scores == BEYOND).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_means_without_torch_are_those_of_torch(name, slot_net, slot_problem):
    net, network, policy = slot_net(**VARIANTS[name])
    slots = Slots(slot_problem.spec, [slot_problem.instance_of(w) for w in slot_problem.train])
    for _ in range(4):
        slots.see()
        means = net(look(net, network, slots, CPU)[0]).mean.detach().numpy()
        for b, (startable, *others) in enumerate(slots.counts):
            rows = slots.rows[b, : startable + sum(others)]
            own = policy.means(slots.context[b], rows, slots.history[b], int(startable))
            np.testing.assert_allclose(own, means[b, :startable], rtol=1e-4, atol=1e-5)
        slots.play(means.astype(np.float64))


def test_slots_are_not_played_in_compiled_episodes_nor_in_rollouts(slot_problem, slot_net):
    """Both are for candidate scorers; the network is asked at every decision instead."""
    policy = slot_net()[2]
    assert not plays_episodes(Behaviour("x", policy))
    with pytest.raises(InputError, match="not kind 'slot_scores'"):
        rollouts_of(policy, (), slot_problem.spec)
