"""Tests that training holds a bounded number of bytes, not of decisions, in memory."""

import json
from dataclasses import fields

import numpy as np
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.policies.offline import agent, tasks
from tests.policies.trainings import train


@pytest.mark.parametrize("transitions", [True, False])
def test_a_decision_takes_the_bytes_that_are_said(tiny_dataset, transitions):
    dataset = ds.open(tiny_dataset)
    found = sample_decisions(
        dataset, "train", np.random.default_rng(0), Columns(5, transitions=transitions), limit=90
    )
    arrays = [getattr(found, f.name) for f in fields(found) if f.name not in {"episodes", "to_go"}]
    assert sum(a.nbytes for a in arrays if a is not None) == 90 * Columns(
        5, transitions=transitions
    ).bytes(dataset.spec)


@pytest.mark.slow
def test_training_keeps_to_its_memory(tiny_dataset, tmp_path, monkeypatch):
    dataset = ds.open(tiny_dataset)
    each = Columns(agent("behaviour_cloning").candidates).bytes(dataset.spec)
    monkeypatch.setattr(tasks, "MEMORY", 150 * each + 1)
    train(tiny_dataset, "behaviour_cloning", steps=2, seed=0, out=tmp_path / "c")
    description = json.loads((tmp_path / "c" / "checkpoint.json").read_text())
    assert description["training"]["dataset"]["decisions"] == 150
