"""Tests that benchmarks run with every agent, on less data than they are timed on."""

import importlib

import pytest

from hindcast.policies.offline import anywhere
from tests.benchmarks import agents, training
from tests.benchmarks.__main__ import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_measures(name):
    assert callable(importlib.import_module(f"tests.benchmarks.{name}").measure)


@pytest.mark.slow
def test_every_agent_learns_from_the_made_up_decisions():
    """Decisions have all data that agents need: a new need fails here, not in `make bench`."""
    names = list(anywhere())
    found = agents.rates(names, rounds=1, steps=1, rows=2000)
    assert set(found) <= {*names, agents.FIT}
    assert len(found) > len(names) // 2  # agents that are solved in one step have no rate
    assert all(rate > 0.0 for rate in found.values())


@pytest.mark.slow
def test_the_whole_loop_runs():
    assert training.whole_loop(steps=2, rows=2000) > 0.0
