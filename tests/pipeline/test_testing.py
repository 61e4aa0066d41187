"""Tests of the public checks: they pass sound plug-ins and find faults in unsound ones."""

import dataclasses
import sys
from types import ModuleType

import numpy as np
import pytest

from hindcast.pipeline.errors import TraceError, VerificationFailed
from hindcast.pipeline.exports import EXPORTS, Export
from hindcast.pipeline.exports import csv as csv_export
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.kernel import ELAPSED, INFEASIBLE, REWARD, RUNNING
from hindcast.pipeline.testing import (
    check_dataset,
    check_export,
    check_policy,
    check_scenario,
    check_trace_format,
)
from hindcast.pipeline.traces import FORMATS
from hindcast.policies.heuristics import heuristics
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.registry import behaviours
from tests.policies.trainings import train_online

LOG = "; MaxProcs: 64\n1 10 5 100 8 -1 -1 8 600 -1 1 7 1 -1 0 -1 -1 -1\n"


@pytest.mark.slow
def test_readers_that_do_not_pass(tmp_path):
    """Readers that lose the order of jobs, are not repeatable, or read everything do not pass."""
    log = tmp_path / "log.swf"
    log.write_text(LOG + LOG.splitlines()[-1].replace("1 10", "2 20", 1) + "\n")
    form, calls = FORMATS["swf"], []

    def backwards(path):
        load, quarantine = form.read(path)
        return dataclasses.replace(load, tasks=load.tasks.reverse()), quarantine

    def unsteady(path):
        calls.append(path)
        load, quarantine = form.read(path)
        return dataclasses.replace(load, tasks=load.tasks.head(len(calls))), quarantine

    def anything(path):
        try:
            return form.read(path)
        except TraceError:
            return form.read(log)

    check_trace_format(form, log)
    for read in (backwards, unsteady, anything):
        with pytest.raises(AssertionError):
            check_trace_format(dataclasses.replace(form, read=read), log)


@pytest.mark.slow
def test_a_dataset_passes_and_a_changed_one_does_not(tiny_dataset, tiny_recipe, tmp_path):
    check_dataset(tiny_dataset, behaviours(tiny_recipe))
    other = behaviours(tiny_recipe)
    first, second, *_ = other
    other[first] = dataclasses.replace(other[second], name=first)
    with pytest.raises(VerificationFailed):
        check_dataset(tiny_dataset, other)


@pytest.mark.slow
def test_rules_and_networks_pass_as_policies(tiny_recipe, tmp_path):
    for rule in heuristics("binpack").values():
        if rule.draw is None:
            check_policy(rule, tiny_recipe)
    recipe = dataclasses.replace(
        tiny_recipe,
        online=OnlineRecipe("reinforce", 1, {"sampling": {"trajectories": 2, "windows": 1}}),
    )
    check_policy(load_policy(train_online(recipe, out=tmp_path / "agent")), tiny_recipe)


class Fickle:
    """Policy whose scores are drawn."""

    name = "fickle"
    rng = np.random.default_rng(0)

    def scores(self, observation):
        return self.rng.random(len(observation.feasible))


class Short(Fickle):
    """Policy that returns one score too few."""

    def scores(self, observation):
        return np.zeros(len(observation.feasible) - 1)


@pytest.mark.parametrize("policy", [Fickle(), Short()], ids=["fickle", "short"])
def test_policies_that_do_not_pass(policy, tiny_recipe):
    with pytest.raises(AssertionError):
        check_policy(policy, tiny_recipe)


@pytest.mark.parametrize(("number", "value"), [(REWARD, np.nan), (ELAPSED, -1.0)])
def test_a_scenario_that_does_not_pass(number, value, tiny_recipe):
    """Rewards must be numbers, and clocks must not run backwards."""
    known, workload = load_scenario("binpack"), load_source(tiny_recipe)

    def step(ints, floats, choice, step_outputs):
        status = known.step(ints, floats, choice, step_outputs)
        step_outputs[number] = value
        return status

    with pytest.raises(AssertionError):
        check_scenario(
            dataclasses.replace(known, step=step), tiny_recipe.config, tiny_recipe.objective,
            lambda n: make_instance(tiny_recipe, known, workload, n), {}, episodes=1,
        )  # fmt: skip


def test_a_scenario_whose_compiled_step_accepts_everything_does_not_pass(tiny_recipe):
    """Python compares choices with the mask, so only a direct call of `step` finds it."""
    known, workload = load_scenario("binpack"), load_source(tiny_recipe)

    def step(ints, floats, choice, step_outputs):
        status = known.step(ints, floats, choice, step_outputs)
        return RUNNING if status == INFEASIBLE else status

    with pytest.raises(AssertionError, match="step accepted choice -1"):
        check_scenario(
            dataclasses.replace(known, step=step), tiny_recipe.config, tiny_recipe.objective,
            lambda n: make_instance(tiny_recipe, known, workload, n), {}, episodes=1,
        )  # fmt: skip


@pytest.mark.slow
def test_exports_that_do_not_pass(tiny_dataset, monkeypatch):
    """Exports whose bytes differ between calls, or that write in place, do not pass."""
    count = []

    def different(dataset, out, candidates, tell):
        count.append(out)
        with csv_export.new_folder(out) as folder:
            tell(1, 1)
            (folder / "a.csv").write_text("a" * len(count))
        return csv_export.result(out)

    def in_place(dataset, out, candidates, tell):
        out.mkdir(exist_ok=True)
        (out / "a.csv").write_text("a")
        tell(1, 1)
        return csv_export.result(out)

    known = dict(EXPORTS._known)
    try:
        for function in (different, in_place):
            module = ModuleType(function.__name__)
            module.export = function
            monkeypatch.setitem(sys.modules, module.__name__, module)
            EXPORTS.register(module.__name__, Export(module.__name__, module.__name__, "x", "x"))
            with pytest.raises(AssertionError):
                check_export(module.__name__, tiny_dataset)
    finally:
        EXPORTS._known = known
    check_export("csv", tiny_dataset)
