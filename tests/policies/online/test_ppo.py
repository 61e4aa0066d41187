"""Tests of PPO over candidates: its first gradient is that of REINFORCE, and its minibatches."""

import dataclasses

import numpy as np
import pytest
import torch

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.online.choices import entropy, join, log_softmax, policy_batch
from hindcast.policies.online.decision_batches import gathered, subset
from hindcast.policies.online.natural_gradient import policy_gradient
from hindcast.policies.online.ppo import (
    Config,
    advantages_and_targets,
    explained,
    minibatches,
    policy_step,
    standardised,
    surrogate,
)
from hindcast.policies.online.problem import Sampling
from hindcast.policies.online.state_value import PopArtValue, summaries, summary_size
from tests.policies.trainings import train_online

CPU = torch.device("cpu")
SMALL = NetworkSettings(hidden=(6,), quadratic=False)
ALL = Config(
    sampling=Sampling(3, 2, 1, "time"), values=False, lam=1.0, standardise=False, minibatch=10**6
)


@pytest.fixture(scope="module")
def drawn(play_problem, policy_of, tiny_recipe):
    """Return a problem, a policy, its trajectories window by window, and their advantages."""
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, SMALL, size=0.3)
    groups = problem.play(policy, 1, ALL.sampling)
    size = sum(len(one.reward) for group in groups for one in group)
    return problem, policy, groups, advantages_and_targets(groups, np.zeros(size), ALL)[0]


def scorer_of(policy):
    scorer = CandidateScorer(policy.network, np.random.default_rng(0))
    scorer.load_state_dict(
        {k.replace(".", "_"): torch.from_numpy(v) for k, v in policy.weights.items()}
    )
    return scorer


def flat(parts):
    return torch.cat([p.reshape(-1) for p in parts])


def test_without_values_advantages_are_those_of_reinforce(drawn):
    """They are returns to go minus the baseline over the window's trajectories."""
    problem, policy, _groups, worth = drawn
    expected = problem.draw(policy, 1, ALL.sampling)
    assert worth == pytest.approx(np.concatenate([one.advantage for one in expected]))


def test_before_the_first_step_the_gradient_is_that_of_reinforce(drawn):
    """All decisions are in one minibatch, with or without those that have a single candidate."""
    problem, policy, groups, worth = drawn
    scorer, played = scorer_of(policy), [one for group in groups for one in group]
    pieces = problem.policy_batches(problem.draw(policy, 1, ALL.sampling), policy.network, CPU)
    expected = policy_gradient(scorer, pieces, len(worth))
    looked, number = gathered(problem, played, policy.network, 1)
    old = torch.from_numpy(
        np.concatenate([one.log_probability for one in played]).astype(np.float32)
    )
    every, free = np.arange(len(number)), np.flatnonzero(np.diff(looked.starts) > 1)
    assert 0 < len(free) < len(every)
    for which in (every, free):
        asked = policy_batch(subset(looked, which), worth[number[which]], policy.network, CPU)
        loss, far = surrogate(scorer, asked, old[number[which]], ALL)
        found = -flat(torch.autograd.grad(loss, list(scorer.parameters())))
        share = len(which) / len(every)
        assert torch.allclose(found * share, expected, rtol=1e-3, atol=1e-5 * expected.abs().max())
        assert float(far.detach()) == pytest.approx(0.0, abs=1e-6)


def test_steps_go_on_until_the_policy_is_too_far(drawn):
    problem, policy, groups, worth = drawn
    played = [one for group in groups for one in group]
    looked, number = gathered(problem, played, policy.network, 1)
    old = np.concatenate([one.log_probability for one in played])
    gain = standardised(worth)
    asked = policy_batch(subset(looked, np.arange(len(number))), gain, policy.network, CPU)
    batches = [(asked, torch.from_numpy(old.astype(np.float32)))] * 12
    found = {}
    for most in (0.0, 1e-4):
        scorer = scorer_of(policy)
        adam = torch.optim.Adam(scorer.parameters(), lr=0.02)
        found[most] = policy_step(scorer, adam, batches, dataclasses.replace(ALL, max_kl=most))
    assert float(found[0.0]["steps_taken"]) == 12.0
    assert 1.0 <= float(found[1e-4]["steps_taken"]) < 12.0
    assert float(found[1e-4]["kl"].detach()) > 1e-4


def test_minibatches_are_of_the_decisions_that_were_asked_for(drawn):
    """Decisions keep their order, candidates and probability of being drawn."""
    problem, policy, groups, _worth = drawn
    scorer, played = scorer_of(policy), [one for group in groups for one in group]
    looked, number = gathered(problem, played, policy.network, 3)
    chance = np.concatenate([one.log_probability for one in played])
    which = np.random.default_rng(0).permutation(len(number))[:20]
    some = subset(looked, which)
    asked = policy_batch(some, np.zeros(20), policy.network, CPU)
    with torch.no_grad():
        found = log_softmax(scorer, asked)[asked.chosen]
    assert found.numpy() == pytest.approx(chance[number[which]], abs=1e-5)
    assert len(some.rows) == some.starts[-1] < len(looked.index)
    first = np.cumsum([0, *(len(one.choices) for one in played)])
    assert sorted(number) == sorted(
        t for k, start in enumerate(first[:-1]) for t in range(start + k % 3, first[k + 1], 3)
    )


def test_decisions_do_not_depend_on_threads_or_pieces(drawn):
    problem, policy, groups, _worth = drawn
    played = [one for group in groups for one in group]
    one, numbers = gathered(problem, played, policy.network, 2)
    several = dataclasses.replace(problem, workers=3)
    other, again = gathered(several, played, policy.network, 2)
    assert (numbers == again).all()
    for field in dataclasses.fields(one):
        assert (getattr(one, field.name) == getattr(other, field.name)).all()
    assert (
        summaries(problem, played, policy.network) == summaries(several, played, policy.network)
    ).all()


def test_the_order_of_candidates_changes_nothing(toy):
    """The loss, its gradient and other decisions do not change either."""
    looked = toy.looked(1, 0)
    order, at = np.array([2, 0, 1, 5, 3, 4]), np.array([0, 3, 6])
    turned = dataclasses.replace(
        looked, rows=looked.rows[order], chosen=np.argsort(order)[looked.chosen], starts=at
    )
    beside = join([toy.looked(2, 1), turned])
    scorer = toy.scorer.float()
    old, found = torch.tensor([-1.0, -0.7]), []
    for one, which in ((looked, [0, 1]), (turned, [0, 1]), (beside, [2, 3])):
        asked = policy_batch(subset(one, np.array(which)), np.array([2.0, -1.0]), toy.network, CPU)
        loss, _ = surrogate(scorer, asked, old, Config(entropy=0.1))
        slope = flat(torch.autograd.grad(loss, list(scorer.parameters())))
        found.append(torch.cat([loss.detach().view(1), slope]))
    assert torch.allclose(found[0], found[1], atol=1e-6)
    assert torch.allclose(found[0], found[2], atol=1e-6)


def test_entropy_is_added_per_decision(toy):
    asked = policy_batch(toy.looked(0, 1), np.zeros(2), toy.network, CPU)
    scorer = toy.scorer.float()
    with torch.no_grad():
        loss, _ = surrogate(scorer, asked, torch.zeros(2), Config(entropy=0.5))
        expected = -0.5 * entropy(log_softmax(scorer, asked)) / 2
    assert float(loss) == pytest.approx(float(expected))
    assert float(loss) < 0.0


def test_every_epoch_has_every_decision_once():
    config = Config(epochs=3, minibatch=4)
    found = list(minibatches(10, config, np.random.default_rng(0)))
    assert [len(which) for which in found] == [4, 3, 3] * 3
    epochs = np.concatenate(found).reshape(3, 10)
    assert (np.sort(epochs, axis=1) == np.arange(10)).all()
    assert not (epochs[0] == epochs[1]).all()
    assert not list(minibatches(0, config, np.random.default_rng(0)))


@pytest.mark.slow
def test_values_follow_their_targets_whatever_the_scale():
    """Targets of a thousand and a thousandth are learned, and a new scale keeps every value."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(400, 3)) * [1.0, 50.0, 0.0] + [0.0, 9.0, 4.0])
    for size in (1e3, 1e-3):
        target = (size * (x[:, 0] - x[:, 1] / 25.0 + 5.0)).float()
        critic = PopArtValue(3, (16,), np.random.default_rng(1))
        critic.meet(x)
        critic.retarget(target)
        adam = torch.optim.Adam(critic.parameters(), lr=0.01)
        for _ in range(300):
            adam.zero_grad()
            critic.loss(x, target).backward()
            adam.step()
        values = critic.values(x)
        assert explained(values.numpy(), target.numpy()) > 0.98
        critic.retarget(target * 7.0 - 3.0 * size)
        assert torch.allclose(critic.values(x), values, rtol=1e-4, atol=1e-4 * size)


def test_moments_of_inputs_are_those_of_all_that_was_met():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(70, 4)) * 3.0 + 100.0)
    critic = PopArtValue(4, (), rng)
    for part in (x[:10], x[10:11], x[11:]):
        critic.meet(part)
    assert torch.allclose(critic.mean, x.mean(dim=0))
    assert torch.allclose(critic.square / critic.count, x.var(dim=0, correction=0))


def test_summaries_are_of_all_decisions_in_order(drawn):
    problem, policy, groups, _worth = drawn
    played = [one for group in groups for one in group]
    found = summaries(problem, played, policy.network)
    assert found.shape == (sum(len(one.choices) for one in played), summary_size(problem))
    assert (found[:, -1] == np.concatenate([one.time_s for one in played])).all()
    assert (found[:, -2] >= np.log1p(1.0) - 1e-12).all()


def test_what_follows_is_discounted_by_the_time_that_passes(drawn):
    """Between two decisions at the same time nothing is discounted."""
    _problem, _policy, groups, _worth = drawn
    size = sum(len(one.reward) for group in groups for one in group)
    sampling = Sampling(3, 2, 1, "none", discount=0.999)
    config = dataclasses.replace(ALL, sampling=sampling, discount_per="second")
    worth, target = advantages_and_targets(groups, np.zeros(size), config)
    one = groups[0][0]
    share = 0.999 ** np.concatenate([[0.0], np.cumsum(one.elapsed_s)[:-1]])
    assert worth[0] == pytest.approx(float(share @ one.reward))
    assert (worth == target).all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"clip": 0.0}, "clip is 0.0, expected above 0"),
        ({"lam": 1.5}, "lam is 1.5, expected from 0 to 1"),
        ({"entropy": -1.0}, "entropy is -1.0, expected at least 0"),
        ({"discount_per": "minute"}, "discount_per"),
        ({"minibatches": 3}, "did you mean 'minibatch'"),
    ],
    ids=["clip", "lam", "entropy", "per", "key"],
)
def test_settings_that_make_no_agent_are_refused(settings, said, tiny_recipe, tmp_path):
    online = OnlineRecipe("ppo", 1, settings)
    with pytest.raises(RecipeError, match=said):
        train_online(dataclasses.replace(tiny_recipe, online=online), out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"values": False, "network": {"kind": "deepsets", "hidden": [6, 6]}},
        {"decisions": 50, "network": {"context": True, "hidden": [8]}},
        {"decay": True, "max_kl": 0.01, "entropy": 0.01, "discount_per": "second"},
    ],
    ids=["deepsets", "context", "decay"],
)
def test_any_candidate_scorer_can_be_trained(settings, tiny_recipe, tmp_path):
    """Scorers that see other candidates or the context train, too, to the same bytes."""
    sampling = {"trajectories": 2, "windows": 2, "stay": 1}
    online = OnlineRecipe("ppo", 2, {"sampling": sampling, **settings})
    recipe = dataclasses.replace(tiny_recipe, online=online)
    folder = train_online(recipe, out=tmp_path / "x")
    again = train_online(recipe, out=tmp_path / "y", workers=2)
    assert (folder / "weights.safetensors").read_bytes() == (
        again / "weights.safetensors"
    ).read_bytes()
