"""Tests of the servers that checkpoints choose at logged decisions."""

import math
import types

import numpy as np
import pytest

from hindcast.flows.papers.thermal_report import choices as module
from hindcast.flows.papers.thermal_report.choices import COLUMNS, QUANTITIES, choices, greedy
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.registry import behaviours
from tests.policies.trainings import train

SERVERS = 6
DISTANCES = (0.0, 1.0, 2.0, math.sqrt(8), math.sqrt(10), math.sqrt(18))
OVERRIDES = (
    "config.jobs=60", "config.steps=80", 'split.train="0..1"', 'split.validation="2..2"',
    'split.test="3..3"', 'behaviours=[{policy="random",episodes=2}]',
)  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return a log of 240 decisions for training, and a run with two checkpoints."""
    place = tmp_path_factory.mktemp("choices")
    recipe = load_recipe("thermal-paper-v1", OVERRIDES)
    build(recipe, behaviours(recipe), place / "log")
    dataset = ds.open(place / "log")
    train(place / "log", "report_dqn", steps=10, seed=0, out=place / "run", checkpoint_every=5)
    return dataset, place / "run"


@pytest.mark.slow
def test_each_checkpoint_and_minibatch_has_a_row(log, monkeypatch):
    """Whichever server is chosen, the distances of all six have the same sum."""
    monkeypatch.setattr(module, "SIZE", 50)
    table = choices(*log, "train", np.random.default_rng(0))
    assert tuple(table.columns) == COLUMNS
    assert table.select("step", "minibatch").rows() == [(s, m) for s in (5, 10) for m in range(4)]
    total = table["chosen_distance"] + (SERVERS - 1) * table["others_distance"]
    np.testing.assert_allclose(total.to_numpy(), sum(DISTANCES), rtol=1e-6)
    for which in ("chosen", "others"):
        assert table[f"{which}_usage"].is_between(0.0, 1.0).all()
        assert table[f"{which}_efficiency"].is_between(0.0, 1.0).all()
    again = choices(*log, "train", np.random.default_rng(0))
    assert again.equals(table)


@pytest.mark.slow
def test_means_are_those_of_the_greedy_choices(log, monkeypatch):
    """With one minibatch of all decisions, the means are those of the whole split."""
    monkeypatch.setattr(module, "SIZE", 240)
    dataset, run = log
    table = choices(dataset, run, "train", np.random.default_rng(0))
    drawn = module.sample_decisions(
        dataset, "train", np.random.default_rng(1), Columns(SERVERS), limit=240
    )
    chosen = greedy(load_policy(run / "checkpoints" / "step-000005"), drawn)
    assert drawn.mask[np.arange(240), chosen].all()
    usage, energy, distance = (
        [[float(row[column]) for row in servers] for servers in drawn.candidates]
        for column in (5, 6, 4)
    )
    expected = dict.fromkeys(QUANTITIES, 0.0)
    for u, c, d, server in zip(usage, energy, distance, chosen, strict=True):
        expected["usage"] += u[server] / 240
        expected["efficiency"] += (u[server] / c[server] if c[server] > 0 else 1.0) / 240
        expected["distance"] += d[server] / 240
    first = table.row(0, named=True)
    assert {what: first[f"chosen_{what}"] for what in QUANTITIES} == pytest.approx(expected)


@pytest.mark.slow
def test_what_cannot_be_used_is_named(log, tmp_path):
    dataset, run = log
    rng = np.random.default_rng(0)
    with pytest.raises(DatasetError, match="holds no checkpoints of steps; train with"):
        choices(dataset, tmp_path, "train", rng)
    with pytest.raises(DatasetError, match="has 240 decisions, expected at least 500"):
        choices(dataset, run, "train", rng)
    other = types.SimpleNamespace(folder="demo", recipe=types.SimpleNamespace(scenario="slots"))
    with pytest.raises(InputError, match="demo: is a log of slots, expected thermal"):
        choices(other, run, "train", rng)
