"""Decisions per second of rollouts with a network, and of whole iterations with their gradient.

    python -m tests.benchmarks online

The pair network of DeepJS (6-3-9-6-1) draws every choice on windows of the synthetic packing
workload; the same network decides the same windows in the lock-step batch (one call a step) for
comparison. A process-based simulation in SimPy plays the same windows without a network.
On the job sets of DeepRM: rollouts of the network over the paper's image, and those in which every
candidate is tried.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.players import PolicyRunner, episode_runner
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.networks.policy import LearnedPolicy
from tests.benchmarks.packing_in_simpy import Rule, drawn_pairs, first_fit
from tests.benchmarks.packing_in_simpy import play as play_in_simpy

if TYPE_CHECKING:  # the module loads torch
    from hindcast.policies.online.problem import Problem, TrajectoryAdvantages

WORKERS = 2
WINDOWS = 8
TRAJECTORIES = 12
REPEATS = 7
SETTINGS = ("online.agent=reinforce", "config.machines=5")

Row = tuple[str, float, str, str]  # quantity, value, unit, comparison


def measure() -> list[Row]:
    """Return rows of (quantity, value, unit, comparison)."""
    return [*_packing(), *_slots()]


def _slots() -> list[Row]:
    from hindcast.policies.networks.candidate_scorer import CandidateScorer
    from hindcast.policies.networks.player import Decider
    from hindcast.policies.online.counterfactual.rollouts import Rollouts, ask_episodes
    from hindcast.policies.online.problem import Sampling, fit_network
    from hindcast.policies.online.training import problem_of, settings_of

    def network_of(sets: tuple[str, ...]) -> tuple["Problem", LearnedPolicy]:
        recipe = load_recipe("slots-deeprm-online", sets)
        problem = problem_of(recipe, 0, 1)
        network = fit_network(problem, settings_of(recipe)[1].network)
        weights = CandidateScorer(network, np.random.default_rng(0)).weights()
        return problem, problem.acting(network, weights)

    images = ('config.observation="image"', "online.settings.network.image=20")
    sampling = Sampling(TRAJECTORIES, WINDOWS, 1)
    rows: list[Row] = []
    for what, sets in (("image", images), ("rows", ())):  # the last network also tries candidates
        problem, policy = network_of(sets)
        problem.draw(policy, 1, sampling)  # this call compiles
        spent = time.process_time()
        drawn = problem.draw(policy, 1, sampling)
        rate = sum(len(one.advantage) for one in drawn) / (time.process_time() - spent)
        rows.append((f"online, slots, {what}, per CPU second", rate, "decisions/s", "sampling"))
    asked = (problem, Decider(policy), 1, Sampling(1, WINDOWS, 1), Rollouts())
    ask_episodes(*asked)  # this call compiles
    spent = time.process_time()
    tried = ask_episodes(*asked)
    rate = sum(one.rolled_out for one in tried) / (time.process_time() - spent)
    return [
        *rows,
        ("online, slots, every candidate tried, per CPU second", rate, "decisions/s", "rollouts"),
    ]


def _looking_ahead(problem: "Problem", policy: LearnedPolicy) -> list[Row]:
    """Return the cost of rollouts at decision time, relative to the network that acts alone."""
    from hindcast.policies.online.problem import Sampling
    from hindcast.policies.rollouts.lookahead import rollouts_of

    planner = rollouts_of(policy, (), problem.spec)
    instances = [problem.instance_of(w) for w in problem.windows_of(1, Sampling(1, WINDOWS, 1))]
    planner.episode(problem.scenario, problem.spec, instances[0])  # this call compiles
    spent = time.process_time()
    played = [planner.episode(problem.scenario, problem.spec, one) for one in instances]
    looking = time.process_time() - spent
    spent = time.process_time()
    problem.play(policy, 1, Sampling(1, WINDOWS, 1), temperature=0.0)
    alone = time.process_time() - spent
    rate = sum(one.steps for one in played) / looking
    return [
        ("online, looking ahead, per CPU second", rate, "decisions/s", "9 members, 10 jobs"),
        ("online, looking ahead / acting alone, cost", looking / alone, "x", ""),
    ]


def _beside_simpy(
    draw: Callable[[], Sequence["TrajectoryAdvantages"]], workload: Workload, windows: Sequence[int]
) -> list[Row]:
    """Return rollouts with the network, and simulations in SimPy without one.

    Rollouts and simulations take turns, and every number is a median. On a machine that others use
    too, either rate can change by a half from one second to the next.
    """
    rules: dict[str, Rule] = {
        "first fit": first_fit, "features, uniform draws": drawn_pairs(np.random.default_rng(0)),
    }  # fmt: skip
    fast: list[tuple[float, float]] = []
    slow: dict[str, list[float]] = {name: [] for name in rules}
    for _ in range(REPEATS):
        start, spent = time.perf_counter(), time.process_time()
        decisions = sum(len(one.advantage) for one in draw())
        wall, spent = time.perf_counter() - start, time.process_time() - spent
        fast.append((decisions / wall, decisions / spent))
        for name, rule in rules.items():
            start = time.perf_counter()
            placements = sum(play_in_simpy(workload, window, rule)[1] for window in windows)
            slow[name].append(placements / (time.perf_counter() - start))
    rates = np.array(fast)
    rows = [
        ("online, rollouts, 2 threads", rates[:, 0], "decisions/s", "6-3-9-6-1, sampling"),
        ("online, rollouts, per CPU second", rates[:, 1], "decisions/s", ""),
    ]
    for name, found in slow.items():
        other = f"SimPy, {name}"
        rows += [
            (f"simulation in {other}, no network", np.array(found), "decisions/s", "one core"),
            (f"online, rollouts, 2 threads / {other}", rates[:, 0] / found, "x", ""),
        ]
    return [(what, float(np.median(numbers)), unit, note) for what, numbers, unit, note in rows]


def _evaluated(
    problem: "Problem", policy: LearnedPolicy, instances: Sequence[Instance]
) -> list[Row]:
    """Return greedy episodes as an evaluation plays them, and the same in the lock-step batch."""
    asked, behaviour = (problem.scenario, problem.spec), Behaviour("best", policy)
    rngs = [np.random.default_rng(0)] * len(instances)
    run_episode(*asked, instances[0], behaviour, rngs[0])  # this call compiles
    rates = []
    for _ in range(REPEATS):
        spent = time.process_time()
        alone = [run_episode(*asked, one, behaviour, rngs[0]) for one in instances]
        middle = time.process_time()
        locked = run_batched(*asked, instances, behaviour, rngs)
        end = time.process_time()
        assert [one.steps for one in alone] == [one.steps for one in locked]
        decisions = sum(one.steps for one in alone)
        rates.append((decisions / (middle - spent), decisions / (end - middle)))
    fast, slow = np.median(rates, axis=0)
    ratio = float(np.median([one / other for one, other in rates]))
    return [
        ("online, evaluation, per CPU second", fast, "decisions/s", "best candidates"),
        ("online, evaluation in the lock-step batch", slow, "decisions/s", "same"),
        ("online, evaluation / lock-step batch", ratio, "x", ""),
    ]


def _packing() -> list[Row]:
    import torch

    from hindcast.policies.online import natural_gradient, reinforce
    from hindcast.policies.online.problem import Sampling, fit_network
    from hindcast.policies.online.training import problem_of, settings_of
    from hindcast.policies.training.devices import repeatable

    recipe = load_recipe("binpack-synthetic-v1", SETTINGS)
    _name, config = settings_of(recipe)
    sampling = Sampling(TRAJECTORIES, WINDOWS, 1)
    cpu = torch.device("cpu")
    with repeatable(cpu):
        problem = problem_of(recipe, 0, WORKERS)
        network = fit_network(problem, config.network)
        first = reinforce.learner(problem, config, network, None, cpu)
        policy = problem.acting(network, first.weights())
        trajectories = problem.draw(policy, 1, sampling)  # compiles and makes the instances
        decisions = sum(len(one.advantage) for one in trajectories)
        rows = _beside_simpy(
            lambda: problem.draw(policy, 1, sampling),
            load_source(recipe),
            problem.windows_of(1, sampling),
        )
        rows += _looking_ahead(problem, policy)
        instances = [one.trajectory.instance for one in trajectories]
        rows += _evaluated(problem, policy, instances)
        behaviour = Behaviour("drawn", policy, temperature=1.0)
        rngs = [np.random.default_rng(i) for i in range(len(instances))]
        spent = time.process_time()
        played = run_batched(problem.scenario, problem.spec, instances, behaviour, rngs)
        locked = sum(e.steps for e in played) / (time.process_time() - spent)
        rows.append(("online, lock-step batch, per CPU second", locked, "decisions/s", "same"))
        spent = time.process_time()
        asked = (problem.scenario, problem.spec, instances[0], behaviour)
        steps = len(PolicyRunner(*asked).play(np.random.default_rng(0)).choices)
        slow = steps / (time.process_time() - spent)
        episode_runner(*asked).play(np.random.default_rng(0))  # this call compiles
        spent = time.process_time()
        steps = sum(
            len(episode_runner(*asked).play(np.random.default_rng(i)).choices)
            for i in range(TRAJECTORIES)
        )
        fast = steps / (time.process_time() - spent)
        beside = "with the distribution of every decision"
        rows += [
            ("online, recording by a network, per CPU second", fast, "decisions/s", beside),
            ("online, recording / asking decision by decision", fast / slow, "x", ""),
        ]
        seconds = {}
        for name, module, own in (
            ("reinforce", reinforce, reinforce.Config(sampling=sampling, updates="iteration")),
            ("natural_gradient", natural_gradient,
             natural_gradient.Config(network=config.network, sampling=sampling)),
        ):  # fmt: skip
            learner = module.learner(problem, own, network, None, cpu)
            learner.step(1)
            spent = time.process_time()
            for iteration in range(2, 5):
                learner.step(iteration)
            seconds[name] = (time.process_time() - spent) / 3
            rate = decisions / seconds[name]
            rows.append((f"online, {name}, per CPU second", rate, "decisions/s", "with gradient"))
        ratio = seconds["natural_gradient"] / seconds["reinforce"]
        rows.append(("online, natural gradient / reinforce, cost", ratio, "x", "at most 2"))
    return rows
