"""Tests that every agent finds the best policy of a small problem from a random log.

    stage 0     gain 1 | gain 0 and a door | gain .5
    stage 1     behind the door gains 3, 1, 0, else .5, .2, 0
    stage 2     behind the door gains 2, 1, 0, else .4, .1, 0

Always taking the largest gain is worth 1.9; the door and then the largest gains are worth 5. Each
decision draws the order of the candidates and the value of an irrelevant feature. All registered
agents are tested; agents that only imitate a log learn from a log of the best policy.
"""

import dataclasses
import functools
import itertools

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec
from hindcast.policies.offline import anywhere, read_config
from tests.policies.trainings import train_agent
from tests.representatives import nightly_but

pytestmark = pytest.mark.slow

NAMES = nightly_but({"trajectory_preference", "cql", "behaviour_cloning"}, anywhere())
IMITATORS = {"behaviour_cloning"}  # from a random log these learn to be random
STEPS = {"cdqac": 1500}  # 500 for others: its policy moves every few steps of its critics only
SPEC = Spec(
    scenario="doors",
    objective="gain",
    context=(Feature("stage", "index", 0, 2, "which decision of the episode"),),
    candidates=(
        Feature("row", "index", 0, 9, "where it stands", identifier=True),
        Feature("gain", "units", 0, 3, "what choosing it pays"),
        Feature("door", "yes/no", 0, 1, "whether it leads to the better stages"),
        Feature("noise", "units", 0, 1, "says nothing"),
    ),
    reward_terms=(),
    outcomes=(Outcome("gain", "units", "the return", better="higher"),),
)
GAINS = {1: {True: (3.0, 1.0, 0.0), False: (0.5, 0.2, 0.0)},
         2: {True: (2.0, 1.0, 0.0), False: (0.4, 0.1, 0.0)}}  # fmt: skip
STAGES, K, WINDOWS, EPISODES = 3, 3, 60, 24


def candidates(stage, opened):
    """Return (gain, door) of each candidate."""
    if stage == 0:
        return [(1.0, 0.0), (0.0, 1.0), (0.5, 0.0)]
    return [(gain, 0.0) for gain in GAINS[stage][opened]]


def value(choices):
    """Return the return of three choices by their place in `candidates`."""
    opened, total = False, 0.0
    for stage, choice in enumerate(choices):
        gain, door = candidates(stage, opened)[choice]
        opened, total = opened or door > 0, total + gain
    return total


OPTIMUM = max(value(choices) for choices in itertools.product(range(K), repeat=STAGES))


def observe(stage, opened, rng):
    """Return (rows (3, 4), order): candidates as an agent sees them, and their places."""
    order = rng.permutation(K)
    of = np.array(candidates(stage, opened))[order]
    return np.column_stack([np.arange(K), of, rng.random(K)]), order


def play(policy, rng):
    """Return the return of an episode of the policy's first choices."""
    choices, opened = [], False
    for stage in range(STAGES):
        rows, order = observe(stage, opened, rng)
        scores = policy.batch_scores(np.array([[float(stage)]]), rows, np.array([0, K]))
        choices.append(int(order[scores.argmax()]))
        opened = opened or candidates(stage, opened)[choices[-1]][1] > 0
    return value(choices)


@functools.cache
def log(k=K, best=False):
    """Return episodes of uniform choices, or of the best ones, padded to `k` candidates."""
    rng = np.random.default_rng(11)
    n = WINDOWS * EPISODES * STAGES
    shape = (n, k, len(SPEC.candidates))
    rows, after = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    mask, next_mask = np.zeros((n, k), bool), np.zeros((n, k), bool)
    choice, reward = np.zeros(n, np.int64), np.zeros(n)
    returns = []
    for start in range(0, n, STAGES):
        opened, taken = False, []
        for stage in range(STAGES):
            at = start + stage
            rows[at, :K], order = observe(stage, opened, rng)
            mask[at, :K] = True
            if stage:
                after[at - 1], next_mask[at - 1] = rows[at], mask[at]
            if best:
                wanted = 1 if stage == 0 else 0
                choice[at] = int(np.flatnonzero(order == wanted)[0])
            else:
                choice[at] = rng.integers(K)
            taken.append(int(order[choice[at]]))
            reward[at], door = candidates(stage, opened)[taken[-1]]
            opened = opened or door > 0
        returns.append(value(taken))
    step = np.arange(n) % STAGES
    last = step == STAGES - 1
    episode = np.arange(n) // STAGES
    total = np.array(returns)
    to_go = np.concatenate([e[::-1].cumsum()[::-1] for e in reward.reshape(-1, STAGES)])
    return Decisions(
        context=step[:, None].astype(np.float32),
        candidates=rows, mask=mask, drawn=mask.sum(axis=1), choice=choice,
        propensity=np.full(n, 1 / K, np.float32), reward=reward, elapsed_s=np.ones(n),
        terminated=last, episode=episode, step=step,
        episodes=pl.DataFrame(
            {
                "episode": np.arange(len(total)), "split": "train", "behaviour": "random",
                "seed": 0, "window": np.arange(len(total)) // EPISODES, "steps": STAGES,
                "return": total, "gain": total,
            }
        ),
        next_context=np.where(last, 0, step + 1)[:, None].astype(np.float32),
        next_candidates=after, next_mask=next_mask, to_go=to_go,
        probabilities=(mask / mask.sum(axis=1, keepdims=True)).astype(np.float32),
    )  # fmt: skip


def settings(name):
    """Return settings for a quicker training, for each setting that the agent has."""
    config = read_config(name)
    known = {f.name for f in dataclasses.fields(config)}
    wanted = {"learning_rate": 1e-2, "minibatch": 64, "target_update_interval": 20}
    found = {key: value for key, value in wanted.items() if key in known}
    if "quantile" in known:
        found["quantile"] = 0.99  # one return in 27 is the best
    if config.network.hidden:
        found |= {"network.hidden": [16] * len(config.network.hidden)}
    return found


def test_the_optimum_is_the_door_and_then_the_largest_gains():
    assert OPTIMUM == value((1, 0, 0)) == 5.0
    assert value((0, 0, 0)) == 1.9


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_finds_the_best_policy_from_a_random_log(name):
    """Imitators learn from a log of the best policy. First choices are the best in 20 episodes."""
    trained = train_agent(
        name, log(best=name in IMITATORS), SPEC, steps=STEPS.get(name, 500), seed=1,
        settings=settings(name),
    )  # fmt: skip
    rng = np.random.default_rng(5)
    returns = [play(trained.policy(), rng) for _ in range(20)]
    assert np.mean(returns) >= 0.98 * OPTIMUM, returns


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_candidates_does_not_matter(name):
    """A score moves with its candidate, also after training on candidates in another order."""
    decisions = log()
    rng = np.random.default_rng(2)
    order = rng.permuted(np.tile(np.arange(K), (len(decisions), 1)), axis=1)
    later = rng.permuted(np.tile(np.arange(K), (len(decisions), 1)), axis=1)
    assert decisions.next_candidates is not None
    assert decisions.next_mask is not None
    shuffled = dataclasses.replace(
        decisions,
        candidates=np.take_along_axis(decisions.candidates, order[..., None], 1),
        mask=np.take_along_axis(decisions.mask, order, 1),
        choice=np.argmax(order == decisions.choice[:, None], axis=1),
        next_candidates=np.take_along_axis(decisions.next_candidates, later[..., None], 1),
        next_mask=np.take_along_axis(decisions.next_mask, later, 1),
    )
    trained, other = (
        train_agent(name, d, SPEC, steps=12, seed=1, settings=settings(name))
        for d in (decisions, shuffled)
    )
    rows, _ = observe(1, opened=True, rng=rng)
    turned = np.array([2, 0, 1])
    given = (np.ones((1, 1)), np.array([0, K]))
    scores = trained.policy().batch_scores(given[0], rows, given[1])
    again = trained.policy().batch_scores(given[0], rows[turned], given[1])
    np.testing.assert_allclose(again, scores[turned], rtol=1e-5, atol=1e-6)
    relearned = other.policy().batch_scores(given[0], rows, given[1])
    np.testing.assert_allclose(
        relearned - relearned.mean(), scores - scores.mean(), rtol=1e-2, atol=2e-3
    )
