"""Tests of compiled trajectories: drawn from the network's probabilities, and replayed exactly."""

import dataclasses

import numpy as np
import pytest
import torch

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.simulation.batched import BatchedEpisodes, run_batched
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.online.choices import log_softmax, merged, policy_batch
from hindcast.policies.rollouts.trajectories import network_inputs, sample_trajectories

NETWORKS = {
    "pairs": NetworkSettings(hidden=(3, 9, 6), activation="tanh", quadratic=False),
    "linear": NetworkSettings(),
    "context": NetworkSettings(hidden=(8,), context=True),
    "deepsets": NetworkSettings(hidden=(8, 4), kind="deepsets"),
}
IMAGE = NetworkSettings(hidden=(8,), image=5, quadratic=False)


def drawn(problem, policy, windows=2, workers=1, temperature=1.0, epsilon=0.0):
    """Return two trajectories of each of the first windows."""
    instances = [problem.instance_of(w) for w in problem.train[:windows] for _ in range(2)]
    rngs = [np.random.default_rng([7, i]) for i in range(len(instances))]
    return sample_trajectories(
        problem.scenario, problem.spec, instances, policy, rngs,
        temperature=temperature, epsilon=epsilon, workers=workers,
    )  # fmt: skip


def candidates_of(problem, trajectory):
    """Return the number of candidates at each decision."""
    batch = BatchedEpisodes(problem.scenario, problem.spec, [trajectory.instance])
    found = []
    for choice in trajectory.choices:
        found.append(len(batch.observe().candidates))
        batch.step(np.array([choice]))
    return found


def recomputed(problem, policy, trajectory, piece=1 << 20):
    """Return log-probabilities of the choices in torch, by decision number."""
    scorer = CandidateScorer(policy.network, np.random.default_rng(0))
    state = {k.replace(".", "_"): torch.from_numpy(v) for k, v in policy.weights.items()}
    scorer.load_state_dict(state)
    parts = network_inputs(
        problem.scenario, problem.spec, trajectory, policy.network, piece=piece
    )  # fmt: skip
    found = []
    for part in parts:
        asked = policy_batch(part, np.zeros(len(part.chosen)), policy.network, torch.device("cpu"))
        with torch.no_grad():
            found.append(log_softmax(scorer, asked)[asked.chosen].numpy())
    return np.concatenate(found)


@pytest.mark.parametrize("kind", NETWORKS)
def test_torch_finds_the_probabilities_that_choices_were_drawn_with(
    kind, tiny_recipe, play_problem, policy_of
):
    """Sampling without torch and the gradient with torch use the same probabilities."""
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, NETWORKS[kind])
    for one in drawn(problem, policy):
        assert np.allclose(recomputed(problem, policy, one), one.log_probability, atol=2e-4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_probabilities_of_choices_include_the_uniform_draws(
    temperature, tiny_recipe, play_problem, policy_of
):
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, NETWORKS["pairs"])
    for one in drawn(problem, policy, temperature=temperature, epsilon=0.5):
        runner = policy.episode_runner(
            problem.scenario, problem.spec, one.instance, temperature, 0.5
        )
        every = runner.follow(one.choices)
        parts = network_inputs(problem.scenario, problem.spec, one, policy.network)
        able = np.concatenate([np.diff(part.starts) for part in parts])
        assert one.log_probability.min() >= np.log(0.5 / able.max()) - 1e-9
        sizes = np.cumsum([0, *candidates_of(problem, one)[:-1]])
        assert np.allclose(np.exp(one.log_probability), every[sizes + one.choices])


def test_an_image_is_read_and_infeasible_candidates_are_left_out(play_problem, policy_of):
    """This is tested on slots, which has both."""
    recipe = load_recipe("slots-deeprm-online", ["config.steps=12", "config.observation=image"])
    problem = play_problem(recipe)
    policy = policy_of(problem, IMAGE)
    for one in drawn(problem, policy):
        assert np.allclose(recomputed(problem, policy, one), one.log_probability, atol=2e-4)


def test_the_best_choices_are_those_of_the_evaluation(tiny_recipe, play_problem, policy_of):
    """At temperature 0 an episode equals that of the batched policy, outcome for outcome."""
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, NETWORKS["pairs"], size=0.3)
    played = drawn(problem, policy, temperature=0.0)
    again = run_batched(
        problem.scenario, problem.spec, [one.instance for one in played],
        Behaviour("x", policy), [np.random.default_rng(0)] * len(played),
    )  # fmt: skip
    for one, other in zip(played, again, strict=True):
        assert one.episode.steps == other.steps
        assert np.array_equal(one.episode.outcomes, other.outcomes)
        assert one.episode.total == other.total == one.reward.sum()


def test_trajectories_do_not_depend_on_the_number_of_threads(tiny_recipe, play_problem, policy_of):
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, NETWORKS["pairs"])
    one, three = (drawn(problem, policy, windows=4, workers=n) for n in (1, 3))
    for a, b in zip(one, three, strict=True):
        assert np.array_equal(a.choices, b.choices)
        assert np.array_equal(a.log_probability, b.log_probability)
        assert np.array_equal(a.reward, b.reward)
    assert not np.array_equal(one[0].choices, one[1].choices)


@pytest.mark.parametrize("kind", ["pairs", "context"])
def test_pieces_together_are_the_whole(kind, tiny_recipe, play_problem, policy_of):
    """Pieces of any size have every decision once, in order, with the same candidates."""
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, NETWORKS[kind])
    one = drawn(problem, policy)[0]

    def rows(**how):
        found = {}
        parts = network_inputs(problem.scenario, problem.spec, one, policy.network, **how)
        for part in parts:
            for t, number in enumerate(part.decision):
                at = slice(part.starts[t], part.starts[t + 1])
                columns = policy.network.candidates.columns
                shown = part.rows[part.index[at]][:, columns]
                found[int(number)] = (shown, int(part.chosen[t] - part.starts[t]))
        return found

    whole, small, thin = rows(), rows(piece=50), rows(every=3, offset=2)
    assert list(whole) == list(small) == list(range(len(one.choices)))
    assert list(thin) == list(range(2, len(one.choices), 3))
    for other in (small, thin):
        for number, (shown, chosen) in other.items():
            assert np.array_equal(shown, whole[number][0])
            assert chosen == whole[number][1]


def test_equal_rows_are_asked_once_where_a_row_is_all_that_counts(
    tiny_recipe, play_problem, policy_of
):
    problem = play_problem(tiny_recipe)
    alone, not_alone = (policy_of(problem, NETWORKS[kind]) for kind in ("pairs", "context"))
    one = drawn(problem, alone)[0]
    parts = [
        next(network_inputs(problem.scenario, problem.spec, one, p.network))
        for p in (alone, not_alone)
    ]
    assert len(parts[0].index) == len(parts[1].index) == len(parts[1].rows)
    assert len(parts[0].rows) < 0.8 * len(parts[0].index)


def test_joined_parts_give_the_probabilities_of_each(tiny_recipe, play_problem, policy_of):
    """Joining shifts every index by the length of the earlier parts."""
    problem = play_problem(tiny_recipe)
    for kind in ("pairs", "deepsets", "context"):
        policy = policy_of(problem, NETWORKS[kind])
        played = drawn(problem, policy)
        parts = [
            (part, np.arange(len(part.chosen)) * 1.0)
            for one in played
            for part in network_inputs(problem.scenario, problem.spec, one, policy.network)
        ]
        (together,) = merged(parts, 1 << 30)
        scorer = CandidateScorer(policy.network, np.random.default_rng(0))
        with torch.no_grad():
            asked = [
                policy_batch(*p, policy.network, torch.device("cpu")) for p in [*parts, together]
            ]
            chances = [log_softmax(scorer, a)[a.chosen] for a in asked]
        assert torch.allclose(torch.cat(chances[:-1]), chances[-1], atol=1e-5)
        assert torch.equal(torch.cat([a.advantage for a in asked[:-1]]), asked[-1].advantage)


def test_a_trajectory_of_another_instance_is_refused(tiny_recipe, play_problem, policy_of):
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, NETWORKS["pairs"])
    one = drawn(problem, policy)[0]
    wrong = dataclasses.replace(one, choices=np.full_like(one.choices, 10_000))
    with pytest.raises(HindcastError, match="cannot be played again"):
        list(network_inputs(problem.scenario, problem.spec, wrong, policy.network))
