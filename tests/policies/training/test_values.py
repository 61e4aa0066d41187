"""Tests of targets of agents with values: logged returns, discounts, comparison within windows."""

import dataclasses

import numpy as np
import pytest
import torch

import hindcast.pipeline.dataset
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.reward_sums import Discount
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.statistics.returns import discounted_sums
from hindcast.policies.networks.candidate_scorer import fit_network
from hindcast.policies.offline import read_config
from hindcast.policies.training.minibatches import Batches
from hindcast.policies.training.returns import against_window, discounted_to_go, undiscounted_to_go
from hindcast.policies.training.values import ValueSettings, ValueUnit, value_unit
from tests.policies.logs import SPEC, Log, some_candidates, some_context

GAMMA = 0.9


def _log(windows, rewards):
    """Return one episode per entry, with these rewards and two candidates per decision."""
    rng = np.random.default_rng(0)
    log = Log()
    for window, of_episode in zip(windows, rewards, strict=True):
        log.episode(
            window,
            [{"context": some_context(rng), "candidates": some_candidates(rng, 2), "choice": 0,
              "reward": reward} for reward in of_episode],
        )  # fmt: skip
    return log.build()


def _random_log(scale=(1.0, 1.0, 1.0)):
    rng = np.random.default_rng(1)
    windows = [w for w in range(3) for _ in range(5)]
    return _log(windows, [scale[w] * rng.normal(2.0, 1.0, rng.integers(3, 30)) for w in windows])


def _direct(decisions, share):
    """Return discounted rewards to the end, one sum per decision."""
    found = np.zeros(len(decisions))
    for i in range(len(decisions)):
        weight = 1.0
        for j in range(i, len(decisions)):
            if decisions.episode[j] != decisions.episode[i]:
                break
            found[i] += weight * decisions.reward[j]
            weight *= share[j]
    return found


def _transitions(decisions):
    batches = Batches(decisions, fit_network(decisions, SPEC, ValueSettings().network), CPU)
    return batches.transitions(np.arange(len(decisions)))


CPU = torch.device("cpu")


def test_discounted_returns_are_the_direct_sums():
    """Discounts are per decision, or per second where seconds differ."""
    decisions = _random_log()
    for passed in (
        np.ones(len(decisions)),
        np.random.default_rng(2).exponential(size=len(decisions)),
    ):
        share = GAMMA**passed
        np.testing.assert_allclose(
            discounted_to_go(decisions, share), _direct(decisions, share), rtol=1e-12
        )
    ones = np.ones(len(decisions))
    assert (discounted_to_go(decisions, ones) == undiscounted_to_go(decisions)).all()


def test_discounted_returns_of_half_an_episode_are_refused():
    decisions = _random_log()
    with pytest.raises(DatasetError, match="only some decisions"):
        discounted_to_go(
            decisions.take(np.arange(1, len(decisions))), np.full(len(decisions) - 1, 0.5)
        )


@pytest.mark.parametrize("per_second", [False, True], ids=["decision", "second"])
def test_a_sample_of_decisions_knows_the_discounted_returns_of_whole_episodes(
    tiny_dataset, per_second
):
    """A sample has the same returns as all decisions, and nothing else of the sample changes."""
    dataset = hindcast.pipeline.dataset.open(tiny_dataset)
    whole = sample_decisions(dataset, "train", np.random.default_rng(0), Columns(4))
    share = 0.99 ** (whole.elapsed_s if per_second else np.ones(len(whole)))
    sums = discounted_sums(whole.episode, whole.reward, share)
    expected = dict(zip(zip(whole.episode, whole.step, strict=True), sums, strict=True))
    plain, some = (
        sample_decisions(
            dataset, "train", np.random.default_rng(0), Columns(4), per_episode=3, discount=discount
        )
        for discount in (None, Discount(0.99, per_second))
    )
    assert plain.discounted is None
    assert (plain.candidates == some.candidates).all()
    found = [expected[key] for key in zip(some.episode, some.step, strict=True)]
    np.testing.assert_allclose(some.discounted, found, rtol=1e-12)


def test_targets_mix_the_step_and_the_logged_return():
    """Share 0 is reward and next value, 1 the logged return, .25 a quarter of the way."""
    decisions = _random_log()
    following = torch.randn(len(decisions), generator=torch.Generator().manual_seed(0))
    share = np.full(len(decisions), GAMMA)
    to_go = torch.from_numpy(discounted_to_go(decisions, share)).float()
    targets = {}
    for m in (0.0, 0.25, 1.0):
        unit = ValueUnit(0.5, GAMMA, per_second=False, monte_carlo=m)
        targets[m] = unit.target(_transitions(unit.prepare(decisions)), following)
    reward = torch.from_numpy(decisions.reward).float()
    step = 0.5 * reward + GAMMA * following * torch.from_numpy(~decisions.terminated)
    torch.testing.assert_close(targets[0.0], step)
    torch.testing.assert_close(targets[1.0], 0.5 * to_go)
    torch.testing.assert_close(targets[0.25], 0.75 * step + 0.25 * 0.5 * to_go)


def test_d3rlpy_gets_the_same_targets():
    """Targets are reward + gamma ** interval * (1 - terminal) * value, as in d3rlpy's losses."""
    from hindcast.policies.offline.q_learning.masked_q import d3rlpy_batch

    decisions = _random_log()
    following = torch.randn(len(decisions), generator=torch.Generator().manual_seed(0))
    for m in (0.0, 0.25, 1.0):
        unit = ValueUnit(0.5, GAMMA, per_second=True, baseline=True, monte_carlo=m)
        steps = _transitions(unit.prepare(decisions))
        batch = d3rlpy_batch(steps, unit)
        y = batch.rewards + GAMMA**batch.intervals * (1.0 - batch.terminals) * following[:, None]
        torch.testing.assert_close(y.squeeze(1), unit.target(steps, following))


def test_rewards_against_the_window_add_up_to_returns_against_the_window():
    """The potential telescopes, so it cannot change which policy is best."""
    decisions = _random_log()
    for gamma in (1.0, GAMMA):
        share = np.full(len(decisions), gamma)
        reward, to_go = against_window(decisions, discounted_to_go(decisions, share), share)
        shaped = dataclasses.replace(decisions, reward=reward)
        np.testing.assert_allclose(_direct(shaped, share), to_go, rtol=1e-9, atol=1e-9)


def test_windows_are_standardised():
    """Each window has deviation 1, and the scale of a window's rewards does not matter."""
    found = []
    for scale in ((1.0, 1.0, 1.0), (2.0, 1.0, 1.5)):
        decisions = _random_log(scale)
        share = np.ones(len(decisions))
        reward, to_go = against_window(decisions, undiscounted_to_go(decisions), share)
        window = decisions.episodes["window"].to_numpy()[decisions.episode]
        for w in range(3):
            assert np.sqrt(np.square(to_go[window == w]).mean()) == pytest.approx(1.0)
        found.append((reward, to_go))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-9)


def test_by_hand_against_the_window():
    """Two episodes of two decisions have returns to go (3, 1) and (1, 1), with means 2 and 1."""
    decisions = _log([0, 0], [[2.0, 1.0], [0.0, 1.0]])
    reward, to_go = against_window(decisions, undiscounted_to_go(decisions), np.ones(4))
    unit = np.sqrt(0.5)
    np.testing.assert_allclose(to_go * unit, [1.0, 0.0, -1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(reward * unit, [1.0, 0.0, -1.0, 0.0], atol=1e-12)


def test_a_window_on_which_nothing_matters_is_not_blown_up():
    """Noise of a millionth stays small, and a window of equal episodes has zeros."""
    noise = [[1.0 + 1e-6, 1.0], [1.0, 1.0]]
    decisions = _log([0, 0, 1, 1], [[2.0, 1.0], [0.0, 1.0], *noise])
    _, to_go = against_window(decisions, undiscounted_to_go(decisions), np.ones(8))
    assert np.abs(to_go[4:]).max() < 1e-4
    equal = _log([0, 0], [[1.0, 1.0], [1.0, 1.0]])
    assert (np.abs(against_window(equal, undiscounted_to_go(equal), np.ones(4))[0]) < 1e-12).all()


def test_a_truncated_episode_leaves_the_next_value_to_be_learned():
    """The potential continues after a cut and stops at an end."""
    decisions = _log([0, 0], [[2.0, 1.0], [0.0, 1.0]])
    cut = dataclasses.replace(decisions, terminated=np.zeros(4, bool))
    ended, open_ = (
        against_window(d, undiscounted_to_go(d), np.ones(4))[0] for d in (decisions, cut)
    )
    assert (open_ - ended)[[1, 3]] == pytest.approx(1.0 / np.sqrt(0.5))
    assert (open_ == ended)[[0, 2]].all()


def test_old_targets_are_one_setting_away():
    """Without baseline and logged returns, decisions are left unchanged."""
    decisions = _random_log()
    config = read_config("dqn", {"baseline": "none", "monte_carlo": 0.0})
    unit = value_unit(decisions, SPEC, config)
    assert unit.prepare(decisions) is decisions
    with pytest.raises(RecipeError, match="monte_carlo is 2"):
        value_unit(decisions, SPEC, dataclasses.replace(config, monte_carlo=2.0))
