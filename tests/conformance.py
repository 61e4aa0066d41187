"""What every scenario must do: one call of `check_scenario` gives a new one the whole suite."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pipeline.building.recorder import L_CHOICE, L_OFFSET, N_REWARD, Recording, make_log
from pipeline.dataset.columns import NO_CHOICE, episodes_schema
from pipeline.errors import InfeasibleChoice
from pipeline.simulation.batched import run_lockstep
from pipeline.simulation.environment import CompiledEnvironment, Observation
from pipeline.simulation.kernel import FRESH
from pipeline.simulation.policy import Behaviour, Heuristic, choose
from pipeline.simulation.rollout import run_episode
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.spec import Spec

Play = Callable[[Observation, np.random.Generator], int]


def uniform(observation: Observation, rng: np.random.Generator) -> int:
    """A uniform choice among the feasible."""
    return int(rng.choice(np.flatnonzero(observation.feasible)))


def check_scenario(
    scenario: Scenario,
    config: Any,
    objective: str,
    instances: Callable[[int], Instance],
    heuristics: Mapping[str, Heuristic],
    *,
    episodes: int = 3,
) -> None:
    """Everything below, on `episodes` instances (`instances(0)`, ...)."""
    spec = scenario.spec(config, objective)
    check_spec(spec)
    for number in range(episodes):
        instance = instances(number)
        check_random_play(scenario, config, objective, instance, number)
        check_refusals(scenario, config, objective, instance)
        for heuristic in heuristics.values():
            for epsilon, temperature in ((0.0, 0.0), (0.3, 0.0), (0.1, 0.5)):
                behaviour = Behaviour(heuristic.name, heuristic, epsilon, temperature)
                check_callers_agree(scenario, spec, instance, behaviour, number)


def check_spec(spec: Spec) -> None:
    """Names are unique and told; the first outcome is the headline and has a direction."""
    for features in (spec.context, spec.candidates):
        names = [f.name for f in features]
        assert len(set(names)) == len(names)
        assert all(f.description and f.unit and f.scale > 0 for f in features)
        assert all(f.low <= f.high for f in features)
    names = [o.name for o in spec.outcomes]
    assert len(set(names)) == len(names)
    assert not set(names) & (set(episodes_schema(dataclasses.replace(spec, outcomes=()))))
    assert spec.outcomes[0].better in {"lower", "higher"}
    assert spec.learned_candidates


def check_observation(observation: Observation, spec: Spec) -> None:
    """Shapes, ranges and read-only arrays."""
    n = len(observation.feasible)
    assert observation.candidates.shape == (n, len(spec.candidates))
    assert observation.context.shape == (len(spec.context),)
    assert observation.feasible.dtype == np.bool_
    assert not observation.candidates.flags.writeable
    slack = 1e-9
    for array, features in (
        (observation.context[None, :], spec.context),
        (observation.candidates, spec.candidates),
    ):
        assert np.isfinite(array).all()
        for column, feature in enumerate(features):
            values = array[:, column]
            assert (values >= feature.low - slack).all(), feature.name
            assert (values <= feature.high + slack).all(), feature.name
    if spec.image_shape:
        assert observation.image is not None
        assert observation.image.shape == spec.image_shape


def check_random_play(
    scenario: Scenario, config: Any, objective: str, instance: Instance, seed: int
) -> None:
    """Clocks never go back, observations keep their ranges, the same seed gives the same play.

    What is observed in place equals what is observed anew.
    """
    spec = scenario.spec(config, objective)
    first = _play(scenario, spec, instance, np.random.default_rng(seed))
    again = _play(scenario, spec, instance, np.random.default_rng(seed))
    assert first == again
    assert all(np.isfinite(list(first[1].values())))


def _play(
    scenario: Scenario, spec: Spec, instance: Instance, rng: np.random.Generator
) -> tuple[list[tuple[int, float, float]], dict[str, float]]:
    environment = _environment(scenario, spec)
    observation = environment.begin(instance)
    time_s = observation.time_s
    log = []
    while True:
        check_observation(observation, spec)
        assert observation.feasible.any()
        _check_fresh(environment, observation)
        choice = uniform(observation, rng)
        step = environment.step(choice)
        assert step.elapsed_s >= 0
        assert step.observation.time_s >= time_s
        assert not (step.terminated and step.truncated)
        assert np.isfinite(step.reward)
        log.append((choice, step.reward, step.elapsed_s))
        observation, time_s = step.observation, step.observation.time_s
        if step.terminated or step.truncated:
            check_observation(observation, spec)
            return log, environment.outcome()


def _environment(scenario: Scenario, spec: Spec) -> CompiledEnvironment:
    environment = CompiledEnvironment.__new__(CompiledEnvironment)
    environment.spec = spec
    environment._scenario = scenario
    environment._observation = None
    environment._over = False
    return environment


def _check_fresh(environment: CompiledEnvironment, observation: Observation) -> None:
    """The observation equals one written into empty buffers."""
    ints, floats = environment._ints.copy(), environment._floats.copy()
    ints[FRESH] = 0
    buffers = [np.zeros_like(a) for a in environment._buffers.arrays]
    n = environment._scenario.observe(ints, floats, *buffers)
    assert n == len(observation.feasible)
    np.testing.assert_array_equal(buffers[0], observation.context)
    np.testing.assert_array_equal(buffers[2][:n], observation.candidates)
    np.testing.assert_array_equal(buffers[3][:n], observation.feasible)
    if observation.image is not None:
        np.testing.assert_array_equal(buffers[1], observation.image.reshape(-1))


def check_refusals(scenario: Scenario, config: Any, objective: str, instance: Instance) -> None:
    """An infeasible choice is refused and changes nothing."""
    environment = _environment(scenario, scenario.spec(config, objective))
    observation = environment.begin(instance)
    before = environment._ints.copy(), environment._floats.copy()
    wrong = [-1, len(observation.feasible), *np.flatnonzero(~observation.feasible)[:3]]
    for choice in wrong:
        try:
            environment.step(int(choice))
        except InfeasibleChoice:
            np.testing.assert_array_equal(environment._ints, before[0])
            np.testing.assert_array_equal(environment._floats, before[1])
        else:
            raise AssertionError(f"choice {choice} was accepted")


def check_callers_agree(
    scenario: Scenario, spec: Spec, instance: Instance, behaviour: Behaviour, seed: int
) -> None:
    """The compiled episode, the recorder, the lock-step batch and Python give one episode."""
    compiled = run_episode(scenario, spec, instance, behaviour, np.random.default_rng(seed))

    log = make_log(spec, compiled.steps + 2, (compiled.steps + 2) * instance.capacity)
    recording = Recording(
        scenario, spec, instance, behaviour, np.random.default_rng(seed), episode=7
    )
    assert recording.go_on(log)
    recorded = recording.episode()
    assert log.rows == compiled.steps + 1
    assert log.labels[L_CHOICE, log.rows - 1] == NO_CHOICE
    np.testing.assert_allclose(log.numbers[N_REWARD, : log.rows].sum(), compiled.total, rtol=1e-9)
    offsets = log.labels[L_OFFSET]
    sums = np.add.reduceat(
        log.probabilities[: offsets[compiled.steps]].astype(np.float64), offsets[: compiled.steps]
    )
    np.testing.assert_allclose(sums, 1.0, atol=1e-5)
    _assert_same(compiled, recorded)

    drawn = behaviour.policy.draw is not None
    if drawn:  # its parameters are drawn by the compiled callers only
        return
    [together, _other] = run_lockstep(
        scenario,
        spec,
        [instance, instance],
        behaviour,
        [np.random.default_rng(seed), np.random.default_rng(seed + 1)],
    )
    _assert_same(compiled, together)

    environment = _environment(scenario, spec)
    observation = environment.begin(instance)
    rng = np.random.default_rng(seed)
    total = 0.0
    for _ in range(compiled.steps):
        scores = behaviour.policy.scores(observation)
        choice, propensity = (
            choose(scores, observation.feasible, rng, behaviour.temperature, behaviour.epsilon)
            if behaviour.stochastic
            else (int(_greedy(scores, observation.feasible)), 1.0)
        )
        assert 0 < propensity <= 1 + 1e-12
        step = environment.step(choice)
        total += step.reward
        observation = step.observation
    assert step.terminated or step.truncated
    assert total == compiled.total


def _greedy(scores: np.ndarray, feasible: np.ndarray) -> int:
    return int(np.argmax(np.where(feasible, scores, -np.inf)))


def _assert_same(one: Any, other: Any) -> None:
    assert one.steps == other.steps
    assert one.total == other.total
    assert one.truncated == other.truncated
    np.testing.assert_array_equal(one.terms, other.terms)
    np.testing.assert_array_equal(one.outcomes, other.outcomes)
