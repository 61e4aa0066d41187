"""Test suites for additions to Hindcast: each is one call inside a test.

    check_scenario        a scenario with its rules, on a few instances
    check_policy          any object that scores candidates, on windows of a recipe
    check_dataset         a dataset folder: verified, and read in every way
    check_trace_format    a reader of raw traces, on a trace file
    check_export          an export, of a dataset that it can hold

Each call raises an AssertionError, or the error of the code under test, at the first violation.
They need no test framework:

    def test_my_scenario():
        def instance(number):
            rng = np.random.default_rng(number)
            return SCENARIO.instance(config, "cost", NOTHING, number, rng)

        config = MyConfig(jobs=5)
        check_scenario(SCENARIO, config, "cost", instance, RULES)
"""

import dataclasses
import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.recorder import (
    L_CHOICE,
    L_OFFSET,
    N_REWARD,
    Recording,
    make_log,
)
from hindcast.pipeline.dataset.columns import NO_CHOICE, episodes_schema
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import InfeasibleChoice, InputError, StorageError
from hindcast.pipeline.exports import export
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.environment import CompiledEnvironment, Observation
from hindcast.pipeline.simulation.kernel import FRESH, INFEASIBLE
from hindcast.pipeline.simulation.picture import resolved
from hindcast.pipeline.simulation.policy import (
    BatchPolicy,
    Behaviour,
    Heuristic,
    Policy,
    choose,
    readings,
)
from hindcast.pipeline.simulation.rollout import Episode, run_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.traces import TraceFormat
from hindcast.pipeline.workloads.folder import load_workload, save_workload
from hindcast.pipeline.workloads.schema import (
    QUARANTINE_COLUMNS,
    TASK_COLUMNS,
    Provenance,
    Workload,
    damage,
)

NOTHING: Final = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))


def uniform(observation: Observation, rng: np.random.Generator) -> int:
    """Return a uniformly drawn choice among the feasible candidates."""
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
    """Check a scenario: its spec, its compiled functions, and every way to run an episode.

    - Names in the spec are unique, features have units and ranges, and observations are in range.
    - The panels of the picture name features of the spec.
    - The same number gives the same instance, and the same seed the same episode. Clocks never go
      back. Elapsed times, rewards, reward terms and outcomes are written, and finite.
    - An observation updated in place by `observe` equals one written into empty buffers.
    - An infeasible choice is refused and changes nothing, at every decision.
    - The compiled episode loop, the recorder, the batch of environments and a loop in Python play
      the same episode with every rule, greedy and exploring.
    - Where the episodes of an instance earn the headline outcome up to a constant and a factor,
      the factor has the sign that `better` says.

    Args:
        scenario: The scenario.
        config: Its settings; small ones make the check fast.
        objective: One of `scenario.objectives`.
        instances: Function from a number 0, 1, ... to a problem instance.
        heuristics: The rules of the scenario by name.
        episodes: Number of instances to play.
    """
    spec = scenario.spec(config, objective)
    check_spec(spec)
    for panel in scenario.picture(spec) if scenario.picture else ():
        resolved(panel, spec)
    made = [instances(number) for number in range(episodes)]
    for number, instance in enumerate(made):
        again = instances(number)
        same = (
            np.array_equal(instance.ints, again.ints),
            np.array_equal(instance.floats, again.floats, equal_nan=True),
        )
        assert all(same), f"instance {number} differs from the one made before"
        check_random_play(scenario, spec, instance, number)
    played: list[list[Episode]] = [[] for _ in made]
    for heuristic in heuristics.values():
        for epsilon, temperature in ((0.0, 0.0), (0.3, 0.0), (0.1, 0.5)):
            behaviour = Behaviour(heuristic.name, heuristic, epsilon, temperature)
            for one, found in zip(
                played, check_callers_agree(scenario, spec, made, behaviour), strict=True
            ):
                one.append(found)
    for one in played:
        _check_sign(spec, one)


def _check_sign(spec: Spec, played: Sequence[Episode]) -> None:
    """Check the sign of rewards that are the headline outcome but for a constant and a factor."""
    outcomes, totals = np.array([(e.outcomes[0], e.total) for e in played]).reshape(-1, 2).T
    spread = np.ptp(outcomes) if len(played) else 0.0
    if not spread > 1e-6 * np.abs(outcomes).max(initial=0.0):
        return
    if len(np.unique(np.round((outcomes - outcomes.min()) / spread, 6))) < 4:
        return  # so few points are easily on a line
    factor, constant = np.polyfit(outcomes, totals, 1)
    if np.allclose(totals, factor * outcomes + constant, rtol=0.0, atol=1e-7 * np.ptp(totals)):
        headline = spec.outcomes[0]
        assert (factor > 0) == (headline.better == "higher"), (
            f"the total reward is {factor:g} times {headline.name} (+ a constant), of which "
            f"{headline.better} is better: the reward has the wrong sign"
        )


def check_spec(spec: Spec) -> None:
    """Check that names are unique and described, and that the headline outcome has a direction."""
    for features in (spec.context, spec.candidates):
        names = [f.name for f in features]
        assert len(set(names)) == len(names)
        assert all(f.description and f.unit and f.scale > 0 for f in features)
        assert all(f.low <= f.high for f in features)
    assert spec.context, "a spec has at least one feature of the moment"
    assert spec.reward_terms, "a spec has at least one reward term: Parquet has no empty columns"
    names = [o.name for o in spec.outcomes]
    assert len(set(names)) == len(names)
    assert not set(names) & (set(episodes_schema(dataclasses.replace(spec, outcomes=()))))
    assert spec.outcomes[0].better in {"lower", "higher"}
    assert spec.learned_candidates


def check_observation(observation: Observation, spec: Spec) -> None:
    """Check shapes and ranges of an observation, and that its arrays are read-only."""
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
            inside = (values >= feature.low - slack) & (values <= feature.high + slack)
            assert inside.all(), (
                f"{feature.name} is {values[~inside][0]}, expected {feature.low} to {feature.high}"
            )
    if spec.image_shape:
        assert observation.image is not None
        assert observation.image.shape == spec.image_shape


def check_random_play(scenario: Scenario, spec: Spec, instance: Instance, seed: int) -> None:
    """Check clocks, ranges, rewards, refusals and in-place updates, with random choices."""
    first = _play(scenario, spec, instance, np.random.default_rng(seed))
    for name, value in first[1].items():
        assert np.isfinite(value), f"outcome wrote {value} as {name}, or nothing"
    again = _play(scenario, spec, instance, np.random.default_rng(seed))
    assert first == again, "the same choices on the same instance gave another episode"


def _play(
    scenario: Scenario, spec: Spec, instance: Instance, rng: np.random.Generator
) -> tuple[list[tuple[int, float, float]], dict[str, float]]:
    """Play and check an episode of random choices; return its log and its outcomes."""
    roomy = dataclasses.replace(instance, capacity=2 * instance.capacity + 8)
    environment, observation = _begin(scenario, spec, roomy)
    time_s = observation.time_s
    log = []
    while True:
        rows = len(observation.feasible)
        assert rows <= instance.capacity, (
            f"observe returned {rows} rows, the capacity of the instance is {instance.capacity}"
        )
        check_observation(observation, spec)
        assert observation.feasible.any(), "no row is feasible, and the episode goes on"
        _check_fresh(environment, observation)
        _check_refusals(environment, observation)
        choice = uniform(observation, rng)
        environment._step_outputs[:] = np.nan
        step = environment.step(choice)
        passed = step.observation.time_s - time_s
        assert step.elapsed_s >= 0, f"step wrote {step.elapsed_s} as elapsed time, or nothing"
        assert passed >= 0, f"the clock went back by {-passed} s"
        assert not (step.terminated and step.truncated)
        assert np.isfinite(step.reward), f"step wrote the reward {step.reward}"
        assert np.isfinite(step.terms).all(), f"step wrote the reward terms {step.terms}"
        log.append((choice, step.reward, step.elapsed_s))
        observation, time_s = step.observation, step.observation.time_s
        if step.terminated or step.truncated:
            check_observation(observation, spec)
            outcomes = np.full(len(spec.outcomes), np.nan)
            scenario.outcome(environment._ints, environment._floats, outcomes)
            names = [o.name for o in spec.outcomes]
            return log, dict(zip(names, outcomes.tolist(), strict=True))


def _begin(
    scenario: Scenario, spec: Spec, instance: Instance
) -> tuple[CompiledEnvironment, Observation]:
    """Begin an episode of a spec without its settings; return environment and observation."""
    environment = CompiledEnvironment.__new__(CompiledEnvironment)
    environment.spec, environment._scenario = spec, scenario
    return environment, environment.begin(instance)


def _check_fresh(environment: CompiledEnvironment, observation: Observation) -> None:
    """Check that an observation equals one written into empty buffers."""
    ints, floats = environment._ints.copy(), environment._floats.copy()
    ints[FRESH] = 0
    buffers = [np.zeros_like(a) for a in environment._arrays[2:]]
    n = environment._scenario.observe(ints, floats, *buffers)
    assert n == len(observation.feasible)
    np.testing.assert_array_equal(buffers[0], observation.context)
    np.testing.assert_array_equal(buffers[2][:n], observation.candidates)
    np.testing.assert_array_equal(buffers[3][:n], observation.feasible)
    if observation.image is not None:
        np.testing.assert_array_equal(buffers[1], observation.image.reshape(-1))


def _check_refusals(environment: CompiledEnvironment, observation: Observation) -> None:
    """Check that infeasible choices are refused and change nothing.

    The environment compares a choice with the mask first. The compiled `step` gets the choices
    too, because compiled loops call it without that comparison.
    """
    scenario = environment._scenario
    before = environment._ints.copy(), environment._floats.copy()
    wrong = [-1, len(observation.feasible), *np.flatnonzero(~observation.feasible)[:3]]
    for choice in wrong:
        ints, floats = before[0].copy(), before[1].copy()
        status = scenario.step(ints, floats, int(choice), environment._step_outputs.copy())
        assert status == INFEASIBLE, f"step accepted choice {choice}, which is not feasible"
        np.testing.assert_array_equal(ints, before[0])
        np.testing.assert_array_equal(floats, before[1])
        try:
            environment.step(int(choice))
        except InfeasibleChoice:
            np.testing.assert_array_equal(environment._ints, before[0])
            np.testing.assert_array_equal(environment._floats, before[1])
        else:
            raise AssertionError(f"choice {choice} is not feasible but was accepted")


def check_callers_agree(
    scenario: Scenario, spec: Spec, instances: Sequence[Instance], behaviour: Behaviour
) -> list[Episode]:
    """Check that the compiled loop, the recorder, the batch and Python play the same episodes.

    The batch holds each instance twice, the second time with another seed. Returns an episode of
    every instance.
    """
    alone = [
        check_episode(scenario, spec, instance, behaviour, seed)
        for seed, instance in enumerate(instances)
    ]
    if behaviour.policy.draw is not None:  # only the compiled callers draw parameters
        return alone
    seeds = (*range(len(alone)), *range(1, len(alone) + 1))
    together = run_batched(
        scenario, spec, [*instances, *instances], behaviour, [*map(np.random.default_rng, seeds)]
    )
    for one, other in zip(alone, together[: len(alone)], strict=True):
        _assert_same(one, other)
    return alone


def check_episode(
    scenario: Scenario, spec: Spec, instance: Instance, behaviour: Behaviour, seed: int
) -> Episode:
    """Check that the recorder and Python play the compiled episode, and return the episode.

    A behaviour that draws parameters is not played in Python.
    """
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

    if behaviour.policy.draw is not None:
        return compiled
    environment, observation = _begin(scenario, spec, instance)
    rng = np.random.default_rng(seed)
    total = 0.0
    for _ in range(compiled.steps):
        scores = behaviour.policy.scores(observation)
        choice, propensity = (
            choose(scores, observation.feasible, rng, behaviour.temperature, behaviour.epsilon)
            if behaviour.stochastic
            else (int(np.argmax(np.where(observation.feasible, scores, -np.inf))), 1.0)
        )
        assert 0 < propensity <= 1 + 1e-12
        step = environment.step(choice)
        total += step.reward
        observation = step.observation
    assert step.terminated or step.truncated
    assert total == compiled.total
    return compiled


def _assert_same(one: Episode, other: Episode) -> None:
    """Check that two episodes are equal."""
    same = one.steps, one.total, one.truncated
    assert same == (other.steps, other.total, other.truncated)
    np.testing.assert_array_equal(one.terms, other.terms)
    np.testing.assert_array_equal(one.outcomes, other.outcomes)


def check_policy(policy: Policy, recipe: Recipe, *, windows: int = 2) -> None:
    """Check a policy on the first windows of a recipe, in episodes of random choices.

    The policy must give one score per candidate, a number for every feasible one, and the same
    scores when called again. A BatchPolicy must give the same scores for a batch as for its single
    observations.

    Args:
        policy: A rule, a network, or any other object with `name` and `scores`.
        recipe: The recipe of the problem.
        windows: Number of windows to play.
    """
    scenario, workload = load_scenario(recipe.scenario), load_source(recipe)
    spec = scenario.spec(recipe.config, recipe.objective)
    assert policy.name
    for window in recipe.windows("all")[:windows]:
        instance = make_instance(recipe, scenario, workload, window)
        environment, observation = _begin(scenario, spec, instance)
        rng, seen, given = np.random.default_rng(window), [], []
        while True:
            scores = policy.scores(observation)
            assert scores.shape == observation.feasible.shape
            assert not np.isnan(scores[observation.feasible]).any()
            np.testing.assert_array_equal(policy.scores(observation), scores)
            seen.append(observation)
            given.append(scores)
            step = environment.step(uniform(observation, rng))
            observation = step.observation
            if step.terminated or step.truncated:
                break
        if isinstance(policy, BatchPolicy):
            np.testing.assert_allclose(_of_batch(policy, seen), np.concatenate(given), rtol=1e-6)


def _of_batch(policy: BatchPolicy, seen: list[Observation]) -> NDArray[np.float64]:
    """Return the scores of observations that are passed as one batch."""
    offsets = np.cumsum([0, *(len(o.feasible) for o in seen)])
    columns: dict[str, NDArray[Any]] = {}
    if "feasible" in readings(policy):
        columns["feasible"] = np.concatenate([o.feasible for o in seen])
    if "image" in readings(policy):
        columns["image"] = np.array([o.image for o in seen]).reshape(len(seen), -1)
    context, candidates = [o.context for o in seen], [o.candidates for o in seen]
    return policy.batch_scores(np.array(context), np.concatenate(candidates), offsets, **columns)


def check_dataset(folder: Path | str, behaviours: Mapping[str, Behaviour] | None = None) -> None:
    """Check a dataset: every claim of its manifest, and that all ways to read it agree.

    Args:
        folder: The folder of the dataset, or its URL.
        behaviours: The dataset's behaviours by their names in the recipe. With them, the logged
            probabilities are recomputed too.
    """
    dataset = ds.open(folder)
    verify(dataset.folder, behaviours)
    episodes = dataset.episodes()
    returns = {}
    for episode in dataset.iter_episodes():
        number = int(episode.about["episode"])
        assert len(episode) == episode.about["steps"]
        returns[number] = float(np.cumsum([0.0, *episode.reward])[-1])
    assert [*returns] == episodes["episode"].to_list()
    np.testing.assert_allclose([*returns.values()], episodes["return"], rtol=1e-9)
    table = dataset.transitions().select("episode", "step", "reward").collect()
    assert table.height == episodes["steps"].sum()
    for split in episodes["split"].unique(maintain_order=True):
        own = episodes.filter(split=split)["episode"].implode()
        met = [
            (int(b.episodes["episode"][int(e)]), int(s))
            for b in dataset.batches(1000, np.random.default_rng(0), split=split)
            for e, s in zip(b.episode, b.step, strict=True)
        ]
        expected = table.filter(pl.col("episode").is_in(own)).select("episode", "step").rows()
        assert sorted(met) == expected  # every decision once


def check_trace_format(form: TraceFormat, path: Path) -> None:
    """Check a reader of raw traces on a trace that has tasks.

    The format must name the source and the terms of its traces. Two reads must give the same valid
    tables, and a workload folder must return them unchanged. A file of another format and a missing
    file must be refused with an InputError.

    Args:
        form: The format.
        path: A small file or folder of this format.
    """
    assert all((form.name, form.description, form.path, form.source, form.terms, form.citation))
    assert form.read is not None
    workload, quarantine = form.read(path)
    again, quarantined = form.read(path)
    assert workload.tasks.equals(again.tasks)
    assert quarantine.equals(quarantined)
    assert list(workload.tasks.schema.items())[: len(TASK_COLUMNS)] == list(TASK_COLUMNS.items())
    assert workload.tasks.height > 0
    assert damage(workload.tasks, workload.machines) is None
    assert dict(quarantine.schema) == dict(QUARANTINE_COLUMNS)
    provenance = workload.provenance
    assert provenance.format == form.name
    assert provenance.files
    assert provenance.counts["tasks"] == workload.tasks.height
    with tempfile.TemporaryDirectory() as scratch:
        save_workload(workload, Path(scratch) / "workload", quarantine)
        kept = load_workload(Path(scratch) / "workload")
        assert kept.tasks.equals(workload.tasks)
        assert kept.provenance == provenance
        other = Path(scratch) / "other"
        other.write_bytes(b"\x00 no trace")
        for wrong in (other, Path(scratch) / "missing"):
            _refused(partial(form.read, wrong), InputError)


def check_export(name: str, dataset: Path | str) -> None:
    """Check an export: reproducible bytes, correct counts, no partial or overwritten output.

    Args:
        name: The name of the format, which must be registered.
        dataset: A dataset that the format can hold.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / folder for folder in ("one", "two", "stopped", "taken")]
        for folder in folders:
            folder.mkdir()
        one, two, stopped, taken = (folder / "x" for folder in folders)
        result = export(dataset, name, one)
        export(dataset, name, two)
        assert _digests(one.parent) == _digests(two.parent)
        sizes = [p.stat().st_size for p in one.parent.rglob("*") if p.is_file()]
        assert (result.files, result.bytes) == (len(sizes), sum(sizes))

        def stop(_done: int, _total: int) -> None:
            raise KeyboardInterrupt

        _refused(partial(export, dataset, name, stopped, progress=stop), KeyboardInterrupt)
        assert not [*stopped.parent.iterdir()]
        taken.mkdir()
        (taken / "mine.txt").write_text("mine")
        for out in (taken, taken / "mine.txt"):
            _refused(partial(export, dataset, name, out), StorageError)
        assert [*taken.parent.rglob("*")] == [taken, taken / "mine.txt"]
        assert (taken / "mine.txt").read_text() == "mine"


def _digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def _refused(call: Callable[[], object], error: type[BaseException]) -> None:
    """Check that a call raises this error."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"expected the call to raise {error.__name__}")
