"""Tests of the 2018 report's agent on `thermal`: network, order of servers, learning."""

import dataclasses

import numpy as np
import polars as pl
import pytest
import torch

from hindcast.flows.papers.thermal_report.agent import ServersScorer
from hindcast.flows.papers.thermal_report.network import (
    ServersPolicy,
    ServersSettings,
    servers_network,
)
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError, HindcastError, InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios.thermal.config import ThermalConfig
from hindcast.pipeline.scenarios.thermal.features import spec as thermal_spec
from hindcast.policies.networks.checkpoint import load_policy, save
from hindcast.policies.registry import behaviours
from tests.policies.trainings import train_agent, train_decisions

SPEC = thermal_spec(ThermalConfig(), "level")
N = 6
PLACES = np.array([(0, 0), (1, 0), (-2, 0), (-2, 2), (3, 1), (3, 3)], float)


def _rows(rng, n):
    """Return contexts (n, 8) and servers (n, 6, 16) as `thermal` shows them."""
    context = rng.uniform(0, 50, (n, len(SPEC.context)))
    servers = rng.uniform(0, 1, (n, N, len(SPEC.candidates)))
    servers[..., 0] = np.arange(N)
    servers[..., 1] = 40
    servers[..., 2:4] = PLACES
    servers[..., 4] = np.hypot(*PLACES.T)
    return context.astype(np.float32), servers.astype(np.float32)


def _log(rng, *, reward, k=N, order=None):
    """Return random transitions; `reward(servers, feasible, choice)` is paid at once."""
    n = 1500
    context, servers = _rows(rng, n + 1)
    feasible = rng.random((n + 1, N)) < 0.8
    feasible[:, 3] = True
    choice = np.array([rng.choice(np.flatnonzero(f)) for f in feasible[:n]])
    paid = np.array([reward(s, f, c) for s, f, c in zip(servers, feasible, choice, strict=False)])
    terminated = np.arange(n) % 50 == 49
    if order is not None:
        servers, feasible = servers[:, order], feasible[:, order]
        choice = np.argsort(order)[choice]
    padded = np.zeros((n + 1, k, servers.shape[2]), np.float32)
    padded[:, :N] = servers
    mask = np.zeros((n + 1, k), bool)
    mask[:, :N] = feasible
    return Decisions(
        context=context[:n], candidates=padded[:n], mask=mask[:n],
        drawn=mask[:n].sum(axis=1), choice=choice, propensity=np.ones(n, np.float32),
        reward=paid, elapsed_s=np.ones(n), terminated=terminated,
        episode=np.arange(n) // 50, step=np.arange(n) % 50,
        episodes=pl.DataFrame(
            {"window": np.arange(n // 50) // 2, "return": paid.reshape(-1, 50).sum(axis=1)}
        ),
        next_context=context[1:], next_candidates=padded[1:],
        next_mask=mask[1:] & ~terminated[:, None],
    )  # fmt: skip


def _usage_reward(servers, _feasible, choice):
    """Return a reward rising with the chosen server's usage, plus .5 at distance 3 or more."""
    return servers[choice, 5] + 0.5 * (servers[choice, 4] > 3)


def _train(decisions, steps=900, **more):
    settings = {"learning_rate": 5e-3, "discount": 0.0, "reward_scale": 1.0}
    return train_agent(
        "report_dqn", decisions, SPEC, steps=steps, seed=1, settings=settings, **more
    )


@pytest.mark.slow
def test_it_finds_the_best_feasible_server_from_a_random_log():
    """Rewards are immediate, so the optimum is the feasible server with the largest reward."""
    policy = _train(_log(np.random.default_rng(0), reward=_usage_reward)).policy()
    rng = np.random.default_rng(9)
    context, servers = _rows(rng, 200)
    feasible = rng.random((200, N)) < 0.7
    feasible[:, 0] = True
    scores = policy.batch_scores(
        context.astype(float), servers.reshape(-1, servers.shape[2]).astype(float),
        np.arange(201) * N, feasible=feasible.ravel(),
    ).reshape(200, N)  # fmt: skip
    chosen = np.where(feasible, scores, -np.inf).argmax(axis=1)
    gains = np.array([[_usage_reward(s, None, c) for c in range(N)] for s in servers])
    best = np.where(feasible, gains, -np.inf).max(axis=1)
    got = gains[np.arange(200), chosen]
    uniform = np.array([g[f].mean() for g, f in zip(gains, feasible, strict=True)])
    assert (got - uniform).mean() > 0.9 * (best - uniform).mean()


def test_torch_and_numpy_agree_and_a_checkpoint_acts_as_it_was_trained(tmp_path):
    trained = _train(_log(np.random.default_rng(0), reward=_usage_reward), steps=20)
    context, servers = _rows(np.random.default_rng(4), 7)
    flat = servers.reshape(-1, servers.shape[2]).astype(float)
    feasible = np.random.default_rng(5).random(7 * N) < 0.5
    offsets = np.arange(8) * N
    policy = trained.policy()
    scores = policy.batch_scores(context.astype(float), flat, offsets, feasible=feasible)
    scorer = ServersScorer(trained.network, np.random.default_rng(0))
    scorer.load_state_dict(
        {k.replace(".", "_"): torch.from_numpy(v) for k, v in trained.weights.items()}
    )
    rows = trained.network.candidates.expand(flat).reshape(7, N, -1)
    inputs = np.concatenate([rows, feasible.reshape(7, N, 1)], axis=2).astype(np.float32)
    with torch.no_grad():
        values = scorer(torch.from_numpy(inputs),
                        torch.from_numpy(trained.network.context.expand(context)))  # fmt: skip
    np.testing.assert_allclose(scores.reshape(7, N), values.numpy(), atol=1e-5)
    loaded = load_policy(save(trained, tmp_path / "a"))
    assert isinstance(loaded, ServersPolicy)
    loaded.check(SPEC)
    assert np.array_equal(
        loaded.batch_scores(context.astype(float), flat, offsets, feasible=feasible), scores
    )
    alone = loaded.batch_scores(context[2:3].astype(float), flat[2 * N : 3 * N], offsets[:2],
                                feasible=feasible[2 * N : 3 * N])  # fmt: skip
    assert np.array_equal(alone, scores[2 * N : 3 * N])


@pytest.mark.slow
def test_padding_and_the_order_of_the_servers_do_not_matter():
    """Servers are identified by their numbers."""
    order = np.array([3, 0, 5, 1, 4, 2])
    logs = [
        _log(np.random.default_rng(0), reward=_usage_reward, k=k, order=o)
        for k, o in ((N, None), (N + 5, None), (N, order))
    ]
    one, padded, shuffled = (_train(log, steps=15) for log in logs)
    for other in (padded, shuffled):
        assert all(np.array_equal(v, other.weights[k]) for k, v in one.weights.items())
    context, servers = _rows(np.random.default_rng(4), 1)
    policy, offsets = one.policy(), np.array([0, N])
    scores = policy.batch_scores(context.astype(float), servers[0].astype(float), offsets)
    turned = policy.batch_scores(context.astype(float), servers[0, order].astype(float), offsets)
    assert np.array_equal(turned, scores[order])


@pytest.mark.slow
def test_what_the_mask_forbids_never_enters_a_target():
    """Infeasible servers and those after the end have no effect, also with a discount."""
    decisions = _log(np.random.default_rng(0), reward=_usage_reward)
    ended = dataclasses.replace(
        decisions,
        next_candidates=np.where(
            decisions.terminated[:, None, None], np.float32(np.inf), decisions.next_candidates
        ),
    )
    runs = [train_agent("report_dqn", d, SPEC, steps=15, seed=1) for d in (decisions, ended)]
    assert all(np.array_equal(v, runs[1].weights[k]) for k, v in runs[0].weights.items())


@pytest.mark.slow
def test_a_killed_run_ends_in_the_same_weights(tmp_path):
    from hindcast.policies.offline import agent, read_config

    decisions = _log(np.random.default_rng(0), reward=_usage_reward)
    config = read_config("report_dqn", {"target_update_interval": 3})

    def run(**more):
        return train_decisions(
            agent("report_dqn"), decisions, SPEC, config, steps=12, seed=2, **more
        )

    def kill(done, _steps):
        if done == 7:
            raise KeyboardInterrupt

    whole = run()
    with pytest.raises(KeyboardInterrupt):
        run(resume=(tmp_path, "k"), resume_s=0.0, progress=kill)
    gone_on = run(resume=(tmp_path, "k"), resume_s=0.0)
    assert all(np.array_equal(v, gone_on.weights[k]) for k, v in whole.weights.items())
    assert whole.metrics == gone_on.metrics


@pytest.mark.slow
def test_it_trains_on_a_dataset_and_acts_in_the_simulator(tmp_path):
    from hindcast.pipeline.evaluation.evaluate import evaluate
    from hindcast.policies.entrants import entrants
    from tests.policies.trainings import train

    recipe = load_recipe(
        "thermal-default-v1",
        ("config.steps=80", "config.jobs=60", 'split.train="0..1"', 'split.validation="2..3"',
         'split.test="4..5"', "evaluate.seeds=1"),
    )  # fmt: skip
    build(recipe, behaviours(recipe), tmp_path / "data")
    folder = train(tmp_path / "data", "report_dqn", steps=20, seed=0, out=tmp_path / "agent")
    scored = entrants(recipe, ["random", str(folder)])
    result = evaluate(recipe, scored, split="test", out=tmp_path / "scores")
    assert np.isfinite(result.means["report_dqn-seed0"])


def test_other_scenarios_and_other_servers_are_refused_by_name():
    decisions = _log(np.random.default_rng(0), reward=_usage_reward)
    with pytest.raises(InputError, match="report_dqn is for thermal, these decisions are of slots"):
        train_agent("report_dqn", decisions, dataclasses.replace(SPEC, scenario="slots"),
                    steps=1, seed=0)  # fmt: skip
    odd = decisions.candidates.copy()
    odd[3, 2, 0] = 4
    with pytest.raises(DatasetError, match="the same 6 servers"):
        train_agent("report_dqn", dataclasses.replace(decisions, candidates=odd), SPEC,
                    steps=1, seed=0)  # fmt: skip
    with pytest.raises(DatasetError, match="needs the feature 'usage'"):
        servers_network(ServersSettings(6), SPEC.context, SPEC.candidates[:5])
    policy = _train(decisions, steps=1).policy()
    with pytest.raises(HindcastError, match="all 6 servers"):
        policy.batch_scores(np.ones((1, 8)), np.ones((4, len(SPEC.candidates))), np.array([0, 4]))
    rows, offsets = np.ones((6, len(SPEC.candidates))), np.array([0, 6])
    for context, servers, feasible in (
        (np.ones((1, 1)), rows, None),
        (np.ones((1, 8)), rows[:, :5], None),
        (np.ones((1, 8)), rows, np.ones(5, np.bool_)),
    ):
        with pytest.raises(HindcastError, match="are not observations of 8 and"):
            policy.batch_scores(context, servers, offsets, feasible=feasible)
