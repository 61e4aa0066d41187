"""Tests of learning slot scores: gradients, advantages, auxiliary module, seven variants."""

import dataclasses

import numpy as np
import pytest
import torch

from hindcast.flows.papers.osdec.agent import Config, Units, fit, learner, worth
from hindcast.flows.papers.osdec.network import SlotScoresSettings
from hindcast.flows.papers.osdec.rollouts import play_slots
from hindcast.flows.papers.osdec.torch_network import Scored
from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.statistics.returns import returns_to_go
from hindcast.policies.networks.checkpoint import load_policy
from tests.folders import content
from tests.policies.trainings import train_online

SMALL = ("config.horizon=12", 'split.train="200..203"', 'split.validation="80..81"')
CPU = torch.device("cpu")
SHAPE = {"width": 6, "rows": 40}
VARIANTS = {
    "reinforce": {"auxiliary": "none"},
    "mlp": {"auxiliary": "none", "encoder": "mlp"},
    "pointer": {"auxiliary": "none", "encoder": "pointer"},
    "attention": {"auxiliary": "none"},
    "high": {"auxiliary": "high"},
    "low": {"auxiliary": "low"},
    "osdec": {"auxiliary": "both"},
}
SAMPLING = {"trajectories": 2, "windows": 2}


def test_the_gradient_of_reinforce_is_that_of_the_expected_reward():
    """Two jobs earn a reward by the order of their scores; the score-function sum is by quadrature.

    The expectation is a double integral over the two scores; its derivative is by finite
    differences.
    """
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    za, zb = (z.ravel() for z in np.meshgrid(points, points))
    chance = np.outer(weights, weights).ravel()
    start = torch.tensor([0.2, -0.1, 0.5, 0.8], dtype=torch.float64)

    def pays(a, b):
        return np.tanh(2.0 * (a - b)) + 0.3 * b  # smooth, so that quadrature is exact enough

    def expected(p):
        return float(chance @ pays(p[0] + p[2] * za, p[1] + p[3] * zb))

    p = start.clone().requires_grad_()
    a, b, c, d = start.tolist()
    scores = torch.from_numpy(np.stack([a + c * za, b + d * zb], axis=1))
    count = len(scores)
    scored = Scored(
        p[:2].expand(count, 2), p[2:].expand(count, 2), torch.ones(count, 2, dtype=torch.bool),
        torch.zeros(count),
    )  # fmt: skip
    reward = torch.from_numpy(pays(*scores.numpy().T))
    (torch.from_numpy(chance) * reward * scored.log_probability(scores)).sum().backward()
    step = 1e-5
    for i in range(4):
        up, down = start.clone(), start.clone()
        up[i] += step
        down[i] -= step
        slope = (expected(up.numpy()) - expected(down.numpy())) / (2 * step)
        assert float(p.grad[i].detach()) == pytest.approx(slope, rel=1e-5)


@pytest.mark.slow
def test_advantages_of_reinforce_compare_trajectories_of_a_window(slot_net, slot_problem):
    """Advantages are returns to go minus their mean at the slot over a window, normalised."""
    net, network, _ = slot_net(auxiliary="none")
    first = slot_problem.instance_of(slot_problem.train[0])
    rngs = [np.random.default_rng(k) for k in range(2)]
    played = play_slots(net, network, slot_problem.spec, [first, first], rngs, CPU)
    config = Config(algorithm="reinforce", sampling=dataclasses.replace(
        Config().sampling, trajectories=2, windows=1))  # fmt: skip
    units = Units()
    units.fit(played, 0.99)
    advantage, target = worth(played, config, units)
    to_go = np.stack([returns_to_go(r, 0.99) for r in played.reward])
    plain = to_go - to_go.mean(axis=0)
    np.testing.assert_allclose(advantage, (plain / plain.std()).ravel(), atol=1e-9)
    steady = np.stack([returns_to_go(np.full(12, played.reward.mean()), 0.99)] * 2)
    np.testing.assert_allclose(target * float(units.size), (to_go - steady).ravel(), atol=1e-9)


def test_advantages_of_ppo_are_gae_over_slots(slot_net, slot_rollout):
    """Advantages equal the sum of the definition, and targets are advantage + value."""
    net, network, _ = slot_net(auxiliary="none")
    played = slot_rollout(net, network)
    units, config = Units(), Config()
    units.fit(played, 0.99)
    advantage, target = worth(played, config, units)
    value = played.value * float(units.size) + units.expected(played.left, 0.99)
    following = np.concatenate([value[:, 1:], np.zeros((2, 1))], axis=1)
    delta = played.reward + 0.99 * following - value
    found = np.array(
        [
            [sum((0.99 * 0.95) ** (k - t) * d[k] for k in range(t, len(d))) for t in range(len(d))]
            for d in delta
        ]
    )
    expected = (found - found.mean()) / found.std()
    np.testing.assert_allclose(advantage, expected.ravel(), atol=1e-9)
    returns = target * float(units.size) + units.expected(played.left, 0.99).ravel()
    np.testing.assert_allclose(returns, (found + value).ravel(), atol=1e-8)


def test_the_auxiliary_module_is_asked_for_the_next_slot(slot_net, slot_rollout):
    """Targets of slot t are features of slot t + 1. The last slot of an episode has no target."""
    net, network, _ = slot_net()
    played = slot_rollout(net, network)
    targets = played.targets.reshape(2, 12, 4).numpy()
    assert np.isnan(targets[:, -1]).all()
    assert not np.isnan(targets[:, :-1]).any()
    moment = played.seen.moment.reshape(2, 12, 3).numpy()
    np.testing.assert_allclose(targets[:, :-1, 0], moment[:, 1:, 0], rtol=1e-5, atol=1e-6)
    rows = played.seen.rows.reshape(2, 12, -1, 9)
    count = int(played.seen.startable.reshape(2, 12)[0, 5])
    assert targets[0, 4, 1] == pytest.approx(float(rows[0, 5, :count, 0].mean()), rel=1e-4)


@pytest.mark.slow
def test_the_auxiliary_module_learns_only_from_its_predictions(slot_net, slot_rollout):
    """Its predictions are inputs of the policy, but the gain has no gradient for its weights."""
    net, network, _ = slot_net(auxiliary="both")
    played = slot_rollout(net, network)
    net(played.seen).mean.sum().backward()
    groups = net.groups()
    assert all(p.grad is None for p in groups["auxiliary"])
    assert any(p.grad is not None for p in groups["policy"])
    assert sum(map(len, groups.values())) == len(list(net.parameters()))
    net.auxiliary(played.history)[1].sum().backward()
    assert all(p.grad is not None for p in groups["auxiliary"])


def variant(name):
    """Return the small recipe with one of the seven variants."""
    recipe = load_recipe("deferrable-osdec-online", SMALL)
    settings = {
        "network": {**SHAPE, **VARIANTS[name]},
        "sampling": SAMPLING,
        "minibatch": 16,
        "algorithm": "reinforce" if name == "reinforce" else "ppo",
    }
    return dataclasses.replace(recipe, online=OnlineRecipe("score_ppo", 2, settings))


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_trains_and_its_checkpoint_acts(name, tmp_path, slot_problem):
    folder = train_online(variant(name), out=tmp_path / "a")
    policy = load_policy(folder)
    policy.check(slot_problem.spec)
    scenario, spec, instance = (
        slot_problem.scenario,
        slot_problem.spec,
        slot_problem.instance_of(80),
    )
    behaviour, rng = Behaviour("p", policy), np.random.default_rng(0)
    episodes = run_batched(scenario, spec, [instance], behaviour, [rng])
    assert episodes[0].total > 0
    assert load_policy(folder / "best").network.settings == policy.network.settings


class Interrupted(Exception):
    """Exception that stands for a kill."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["osdec", "reinforce"])
def test_an_interrupted_training_ends_in_the_same_bytes(name, tmp_path):
    recipe = variant(name)
    whole = train_online(recipe, out=tmp_path / "a", iterations=3)

    def stop(done, _all):
        if done == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        train_online(recipe, out=tmp_path / "b", iterations=3, progress=stop, resume_s=0.0)
    assert (tmp_path / "b" / "training.safetensors").is_file()
    again = train_online(recipe, out=tmp_path / "b", iterations=3, workers=2)
    assert content(again) == content(whole)


@pytest.mark.slow
def test_it_learns_to_start_the_jobs_that_pay(play_problem):
    """If waiting costs more than most jobs pay, a loss becomes a gain on unseen windows."""
    sets = (
        "config.horizon=24", "config.fixed_share=0.0", "config.delay_weight=8.0",
        "config.capacity=10.0", "config.scale_capacity=false", "config.jobs_per_slot=4.0",
        "config.duration_case=1", 'split.train="200..215"', 'split.validation="80..95"',
    )  # fmt: skip
    problem = play_problem(load_recipe("deferrable-osdec-online", sets))
    config = Config(
        network=SlotScoresSettings(auxiliary="none", width=8, rows=24),
        learning_rate=3e-3, value_learning_rate=3e-3, minibatch=96,
    )  # fmt: skip
    run = learner(problem, config, fit(problem, config.network), None, CPU)
    before = run.validate()["validation_return"]
    for iteration in range(1, 10):
        run.step(iteration)
    assert run.validate()["validation_return"] > before + 60.0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"network": {"encoder": "atention"}}, "did you mean 'attention'"),
        ({"network": {"width": 0}}, "width is 0"),
        ({"algorithm": "reinforce", "sampling": {"trajectories": 1}}, "at least 2"),
        ({"lam": 2.0}, "expected from 0 to 1"),
        ({"clip": 0.0}, "expected above 0"),
    ],
    ids=["encoder", "width", "alone", "lam", "clip"],
)
def test_settings_that_make_no_agent_are_refused(settings, said, tmp_path):
    recipe = load_recipe("deferrable-osdec-online", SMALL)
    recipe = dataclasses.replace(recipe, online=OnlineRecipe("score_ppo", 1, settings))
    with pytest.raises(RecipeError, match=said):
        train_online(recipe, out=tmp_path)


def test_other_features_are_refused(play_problem):
    slots = play_problem(load_recipe("slots-deeprm-online", ["config.steps=5"]))
    with pytest.raises(DatasetError, match="not the features of deferrable"):
        fit(slots, SlotScoresSettings())


def test_values_of_a_steady_policy():
    units = Units()
    units.steady.fill_(2.0)
    left = np.array([[3.0, 2.0, 1.0]])
    assert units.expected(left, 0.5).tolist() == [[3.5, 3.0, 2.0]]
    assert units.expected(left, 1.0).tolist() == [[6.0, 4.0, 2.0]]
