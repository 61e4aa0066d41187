"""Tests that the constants of compiled code are the columns of every setting's spec, by name."""

import dataclasses
import itertools

import numpy as np
import pytest
from numba.core.errors import TypingError

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.binpack import features as binpack_features
from hindcast.pipeline.scenarios.deferrable import features as deferrable_features
from hindcast.pipeline.scenarios.gpupack import features as gpupack_features
from hindcast.pipeline.scenarios.multicluster import (
    features as multicluster_features,
)
from hindcast.pipeline.scenarios.multicluster import (
    layout as multicluster_memory,
)
from hindcast.pipeline.scenarios.queue import features as queue_features
from hindcast.pipeline.scenarios.slots import features as slots_features
from hindcast.pipeline.scenarios.slots import layout as slots_memory
from hindcast.pipeline.scenarios.thermal import features as thermal_features
from hindcast.pipeline.simulation.kernel import OUTCOME, compiled
from hindcast.pipeline.simulation.spec import Feature, Outcome, added_outcomes, columns

FEATURES = {
    "binpack": binpack_features,
    "deferrable": deferrable_features,
    "gpupack": gpupack_features,
    "multicluster": multicluster_features,
    "queue": queue_features,
    "slots": slots_features,
    "thermal": thermal_features,
}
SETTINGS = {
    "binpack": [{}, {"features": "extended"}, {"cluster": "trace", "allow_wait": True}],
    "deferrable": [{}, {"setting": "realtime", "capacity": 3.0, "horizon": 24}],
    "gpupack": [{}, {"nodes": ("2x8x64Gx2",), "load": 1.35}],
    "multicluster": [{}, {"clusters": (7,)}, {"clusters": (7, 8, 9), "foresight": True}],
    "queue": [{}, {"allow_wait": True}],
    "slots": [
        {"foresight": foresight, "observation": observation, **sizes}
        for foresight, observation, sizes in itertools.product(
            (False, True),
            ("compact", "image"),
            ({}, {"preset": "report", "queue": 47}, {"horizon": 15, "queue": 1, "backlog": 0}),
        )
    ],
    "thermal": [{}, {"features": "history"}, {"preset": "paper"}],
}
EVERY = [(name, settings) for name in SETTINGS for settings in SETTINGS[name]]


def spec_of(name, settings):
    scenario = load_scenario(name)
    return scenario.spec(scenario.config(**settings), scenario.objectives[0])


@pytest.mark.parametrize(("name", "settings"), EVERY)
def test_places_of_rows_terms_and_outcomes_are_those_of_the_spec(name, settings):
    require_places(spec_of(name, settings), FEATURES[name])


def require_places(spec, found):
    """Settings may leave out columns at the end; `place` of slots is the last column if present."""
    names = [f.name for f in spec.candidates]
    shown = [n for n in names if n != "place"]
    assert names[: len(shown)] == shown
    assert [getattr(found.ROW, n) for n in shown] == list(range(len(shown)))
    assert found.TERM._fields == spec.reward_terms
    assert found.OUT._fields == tuple(o.name for o in spec.outcomes)


@pytest.mark.parametrize(("name", "settings"), [e for e in EVERY if e[0] != "slots"])
def test_places_of_the_context_are_those_of_the_spec(name, settings):
    require_context(spec_of(name, settings), FEATURES[name])


def require_context(spec, found):
    """Clusters of multicluster follow each other, each with the features of the first one."""
    names = [f.name for f in spec.context]
    moment = found.MOMENT
    assert len(names) % len(moment) == 0
    for at, shown in enumerate(names):
        number, own = divmod(at, len(moment))
        assert shown == moment._fields[own].replace("cluster0", f"cluster{number}")


@pytest.mark.parametrize("settings", SETTINGS["slots"])
def test_the_context_of_slots_is_blocks_of_time_steps_and_of_slots(settings):
    names = [f.name for f in spec_of("slots", settings).context]
    queue = load_scenario("slots").config(**settings).queue
    step, slot = slots_features.STEP, slots_features.SLOT
    assert names.pop() == "backlog"
    seen, waiting = names[: -len(slot) * queue], names[-len(slot) * queue :]
    assert seen == [f"{n}_{h:02}" for h in range(len(seen) // len(step)) for n in step._fields]
    assert waiting == [f"{n}_{i}" for i in range(queue) for n in slot._fields]
    assert len(step) == len(slot) == slots_memory.COLUMNS  # as in the rules and in the stored grid


def test_what_never_changes_of_a_row_is_its_first_columns():
    row = multicluster_features.ROW
    assert row.age == multicluster_memory.SHOWN
    assert row.execution - row.profile_0 == multicluster_memory.BINS
    assert binpack_features.ROW.total == binpack_features.PAPER_COLUMNS


def test_compiled_code_takes_places_for_constants_and_refuses_other_names():
    named = columns((Feature("a", "1", 0, 1, ""), Outcome("b", "1", ""), "c"))
    assert (*named,) == (0, 1, 2)

    @compiled(OUTCOME)
    def fill(ints, floats, outcomes):
        outcomes[named.c] = 3.0

    out = np.zeros(len(named))
    fill(np.zeros(1, np.int64), np.zeros(1), out)
    assert out.tolist() == [0.0, 0.0, 3.0]

    def refused(ints, floats, outcomes):
        outcomes[named.absent] = 3.0

    with pytest.raises(TypingError, match="absent"):
        compiled(OUTCOME)(refused)


def test_a_rewritten_description_makes_no_other_spec():
    """Older datasets, which hold the descriptions of their time, still verify."""
    spec = spec_of("thermal", {})
    one, other = spec.candidates[0], spec.outcomes[0]
    changed = dataclasses.replace(
        spec,
        candidates=(dataclasses.replace(one, description="new"), *spec.candidates[1:]),
        outcomes=(dataclasses.replace(other, description="new"), *spec.outcomes[1:]),
    )
    assert changed == spec
    assert added_outcomes(spec, changed) == ()
    assert dataclasses.replace(one, unit="new") != one
