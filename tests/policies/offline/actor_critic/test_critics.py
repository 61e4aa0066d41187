"""Tests of losses against formulas by hand, and of values that depend on feasible rows only."""

import numpy as np
import pytest
import torch

from hindcast.policies.networks.candidate_scorer import FILL
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.settings import Network, NetworkSettings
from hindcast.policies.offline.actor_critic.critics import (
    Critics,
    DuelingQuantiles,
    StateValue,
    chosen,
    conservative,
    entropy,
    expectile_loss,
    follow,
    logged_value,
    masked_expectation,
    masked_log_softmax,
    packed_position,
    quantile_loss,
    spread_among,
)
from hindcast.policies.training.minibatches import Minibatch
from tests.policies.logs import SPEC

KINDS = [
    NetworkSettings(hidden=(), quadratic=True),
    NetworkSettings(hidden=(8, 8), quadratic=False, context=True),
    NetworkSettings(hidden=(8, 8), kind="deepsets", context=True),
]
every_kind = pytest.mark.parametrize("settings", KINDS, ids=["linear", "mlp", "sets"])
MASK = torch.tensor([[True, False, True], [False, True, False], [False, False, False]])


def _network(settings):
    context = (0, 1) if settings.context else ()
    return Network(
        settings,
        unscaled_map(SPEC.candidates, SPEC.learned_candidates, settings.quadratic),
        unscaled_map(SPEC.context, context, quadratic=False),
    )


def _batch(network, mask, rows, choice=None):
    """Return observations whose packed rows are the rows of (B, K, E) that the mask allows."""
    b = len(mask)
    choice = torch.zeros(b, dtype=torch.int64) if choice is None else choice
    context = torch.linspace(-1, 1, b * network.context.size).view(b, -1)
    return Minibatch(rows[mask], context, mask, choice, mask.sum(dim=1))


def _rows(network, b, k, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(b, k, network.candidates.size)).astype(np.float32))


def _one(mask, choice):
    return torch.nn.functional.one_hot(torch.tensor(choice), mask.shape[1]).float()


@every_kind
def test_a_states_value_does_not_depend_on_padding_or_order(settings):
    """The same holds for an observation without candidates, however it is padded."""
    network = _network(settings)
    value = StateValue(network, np.random.default_rng(1))
    rows = _rows(network, 3, 3)
    short = value(_batch(network, MASK, rows))
    wide = torch.cat([rows, torch.full((3, 2, rows.shape[2]), torch.inf)], dim=1)
    order = [4, 2, 1, 0, 3]
    mask = torch.cat([MASK, torch.zeros(3, 2, dtype=torch.bool)], dim=1)
    other = value(_batch(network, mask[:, order], wide[:, order]))
    assert short.shape == (3,)
    torch.testing.assert_close(short, other)
    assert torch.isfinite(short).all()


@every_kind
def test_dueling_quantiles_are_centred_on_the_state(settings):
    """Values are means of the quantiles, and their average over candidates is the state's."""
    network = _network(settings)
    critic = DuelingQuantiles(network, np.random.default_rng(1), 5)
    rows, mask = _rows(network, 2, 3), torch.tensor([[True, True, False], [True, True, True]])
    batch = _batch(network, mask, rows)
    given = [critic(batch, _one(mask, c)) for c in ([0, 0], [1, 1], [1, 2])]
    values = given[0][0]
    assert (values[~mask] == FILL).all()
    for (_, quantiles), choice in zip(given, ([0, 0], [1, 1], [1, 2]), strict=True):
        torch.testing.assert_close(quantiles.mean(dim=1), values[[0, 1], choice])
    quantiles_of_row_1 = torch.stack([given[0][1][1], given[1][1][1], given[2][1][1]])
    state = quantiles_of_row_1.mean(dim=0)
    torch.testing.assert_close(state.mean(), values[1].mean())
    mixed = critic(batch, torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.25, 0.25]]))[1][1]
    weight = torch.tensor([[0.5], [0.25], [0.25]])
    torch.testing.assert_close(mixed, (quantiles_of_row_1 * weight).sum(dim=0))


@every_kind
def test_nothing_follows_a_terminal_decision_and_gives_numbers(settings):
    """A minibatch of terminal decisions only has no next candidates at all."""
    network = _network(settings)
    mask = torch.zeros(2, 3, dtype=torch.bool)
    batch = _batch(network, mask, _rows(network, 2, 3))
    critic = DuelingQuantiles(network, np.random.default_rng(1), 4)
    values, quantiles = critic(batch, torch.zeros(2, 3))
    assert torch.isfinite(quantiles).all()
    assert (values == FILL).all()
    assert torch.isfinite(StateValue(network, np.random.default_rng(1))(batch)).all()
    assert (Critics(network, np.random.default_rng(1)).least(batch) == FILL).all()


@every_kind
def test_a_logged_value_is_the_value_of_the_logged_choice(settings):
    network = _network(settings)
    critics = Critics(network, np.random.default_rng(1))
    mask = torch.tensor([[True, False, True], [False, True, True]])
    batch = _batch(network, mask, _rows(network, 2, 3), torch.tensor([2, 1]))
    every = chosen(critics.values(batch), batch.choice)
    torch.testing.assert_close(critics.logged(batch), every)
    torch.testing.assert_close(critics.least_logged(batch), every.amin(dim=0))
    torch.testing.assert_close(logged_value(critics.online[0], batch), every[0])
    assert packed_position(mask, batch.choice).tolist() == [1, 2]


def test_targets_move_their_share_of_the_way():
    critics = Critics(_network(KINDS[1]), np.random.default_rng(1))
    before = [p.clone() for p in critics.target.parameters()]
    with torch.no_grad():
        for p in critics.online.parameters():
            p.add_(1.0)
    critics.follow(0.25)
    for was, now in zip(before, critics.target.parameters(), strict=True):
        torch.testing.assert_close(now, was + 0.25)
        assert not now.requires_grad
    follow(critics.target, critics.online, 1.0)
    for a, b in zip(critics.target.parameters(), critics.online.parameters(), strict=True):
        assert torch.equal(a, b)


def test_expectations_ignore_whatever_a_mask_forbids():
    """FILL, infinities and NaN behind the mask change neither value nor gradient."""
    mask = torch.tensor([[True, True, False], [False, False, False]])
    scores = torch.tensor([[0.0, np.log(3.0), FILL], [FILL, FILL, FILL]], requires_grad=True)
    log_pi = masked_log_softmax(scores, mask)
    for forbidden in (FILL, torch.inf, torch.nan):
        values = torch.full((2, 3), forbidden)
        values[0, :2] = torch.tensor([1.0, 5.0])
        mean = masked_expectation(log_pi, values, mask)
        assert mean.tolist() == pytest.approx([0.25 + 3.75, 0.0])
    spread = entropy(log_pi, mask)
    assert spread.tolist() == pytest.approx([0.25 * np.log(4) - 0.75 * np.log(0.75), 0.0])
    (spread.sum() + masked_expectation(log_pi, torch.ones(2, 3), mask).sum()).backward()
    assert torch.isfinite(scores.grad).all()


def test_losses_by_hand():
    error = torch.tensor([2.0, -1.0])
    assert expectile_loss(error, 0.9).item() == pytest.approx((0.9 * 4 + 0.1 * 1) / 2)
    values = torch.tensor([[0.0, 0.0, FILL]])
    gap = conservative(values, torch.tensor([1]))
    assert gap.item() == pytest.approx(np.log(2))
    # quantiles 0 and 2 at tau 1/4 and 3/4, one sample 1: errors 1 and -1, huber .5 each
    loss = quantile_loss(torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0]]), kappa=1.0)
    assert loss.item() == pytest.approx(0.25 * 0.5 + 0.25 * 0.5)
    # kappa .5: beyond it linear, .5 * (1 - .25) / .5
    loss = quantile_loss(torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0]]), kappa=0.5)
    assert loss.item() == pytest.approx(2 * 0.25 * 0.75)
    of = spread_among(torch.tensor([[1.0, 3.0, FILL]]), torch.tensor([[True, True, False]]))
    assert of.item() == pytest.approx(1.0)


@pytest.mark.slow
def test_quantile_loss_is_least_at_the_quantiles():
    """For 0 to 99 these are the quartiles' midpoints, up to the width of the quadratic part."""
    samples = torch.arange(100.0)[None]
    theta = torch.full((1, 2), 50.0, requires_grad=True)
    optimiser = torch.optim.Adam([theta], lr=1.0)
    for step in range(400):
        optimiser.param_groups[0]["lr"] = 1.0 - step / 400
        optimiser.zero_grad()
        quantile_loss(theta, samples, kappa=1.0).backward()
        optimiser.step()
    assert theta.detach().numpy()[0] == pytest.approx([24.5, 74.5], abs=1.0)
