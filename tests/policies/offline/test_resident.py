"""Tests of transitions that stay on a device, and of steps that are captured as a CUDA graph."""

import contextlib
import dataclasses
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hindcast.pipeline.errors import DatasetError
from hindcast.policies.networks.candidate_scorer import fit_network
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.offline import resident
from hindcast.policies.training.minibatches import Batches

CPU = torch.device("cpu")
PLACES = [CPU, torch.device("cuda")] if torch.cuda.is_available() else [CPU]


def _log(noisy_episodes, spec):
    decisions = noisy_episodes.build()
    return decisions, fit_network(decisions, spec, NetworkSettings((4,), context=True))


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_padded_transitions_are_those_of_minibatches(noisy_episodes, spec, place):
    """The second of two joined logs begins where the first ends, and has its own maps."""
    decisions, network = _log(noisy_episodes, spec)
    other = dataclasses.replace(decisions, candidates=decisions.candidates * np.float32(2.0))
    logs = [(decisions, network), (other, fit_network(other, spec, network.settings))]
    joined = resident.padded(logs, place)
    last = int(np.flatnonzero(decisions.terminated)[0])
    rows = np.array([5, 0, last, 5, len(decisions) - 1])
    for first, (log, its) in zip((0, len(decisions)), logs, strict=True):
        wanted = Batches(log, its, CPU).transitions(rows)
        found = joined.at(torch.from_numpy(rows + first).to(place))
        for seen, candidates, context, mask in (
            (wanted.now, found.candidates, found.context, found.mask),
            (wanted.after, found.after_candidates, found.after_context, found.after_mask),
        ):
            assert torch.equal(seen.mask, mask.cpu())
            assert torch.equal(seen.candidates, candidates[mask].cpu())
            assert torch.equal(seen.context, context.cpu())
            assert not candidates[~mask].any()
        assert torch.equal(wanted.now.choice, found.choice.cpu())
    assert not torch.equal(joined.candidates[5], joined.candidates[5 + len(decisions)])


def test_rows_of_several_agents_are_gathered_at_once(noisy_episodes, spec):
    joined = resident.padded([_log(noisy_episodes, spec)], CPU)
    rows = torch.tensor([[0, 3], [2, 2]])
    found = joined.at(rows)
    assert found.candidates.shape[:2] == (2, 2)
    assert torch.equal(found.candidates[0, 1], joined.candidates[3])
    assert torch.equal(found.choice, joined.choice[rows])


def test_the_memory_of_a_log_is_known_before_it_is_padded(noisy_episodes, spec):
    decisions, network = _log(noisy_episodes, spec)
    found = resident.padded([(decisions, network)], CPU)
    taken = sum(column.nbytes for column in vars(found).values())
    assert resident.padded_bytes(decisions, network) == taken
    assert resident.memory(CPU) == resident.memory(CPU) > taken


def test_without_what_followed_nothing_is_padded(noisy_episodes, spec):
    decisions, network = _log(noisy_episodes, spec)
    with pytest.raises(DatasetError, match="without what followed"):
        resident.padded([(dataclasses.replace(decisions, next_mask=None), network)], CPU)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_captured_step_has_the_effect_of_the_step(place):
    """Steps that are taken before the capture leave no trace; rows are read at every call."""
    total = torch.ones(3, device=place)
    rows = torch.zeros(3, dtype=torch.int64, device=place)

    def step():
        total.add_(rows)

    run = resident.captured(step, [total], place)
    for value in (1, 10):
        resident.send(np.full(3, value), rows)
        run()
    assert total.tolist() == [12.0] * 3


@contextlib.contextmanager
def _no_capture(_graph):
    yield
    raise RuntimeError("operation not permitted when stream is capturing")


def _stand_ins(monkeypatch, graph, capture=contextlib.nullcontext):
    """Replace CUDA by streams that do nothing and a graph that records nothing."""
    stream = SimpleNamespace(wait_stream=lambda _other: None)
    for name, stand_in in {
        "Stream": lambda _device: stream,
        "current_stream": lambda _device: stream,
        "stream": contextlib.nullcontext,
        "CUDAGraph": graph,
        "graph": capture,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)


def test_a_step_that_cannot_be_captured_is_taken_as_it_is(monkeypatch):
    _stand_ins(monkeypatch, SimpleNamespace, _no_capture)
    total = torch.zeros(2)
    with pytest.warns(UserWarning, match="without a CUDA graph: operation not permitted"):
        run = resident.captured(lambda: total.add_(1.0), [total], torch.device("cuda"))
    run()
    assert total.tolist() == [1.0, 1.0]


def test_a_graph_holds_the_tensors_that_it_reads(monkeypatch):
    """A graph knows addresses alone, so the tensors must live as long as the function.

    The graph here is a stand-in, which takes the step where a device would only record it.
    """
    replays = []

    class Graph:
        def replay(self):
            replays.append(self)

    _stand_ins(monkeypatch, Graph)
    total = torch.zeros(2)

    def made():
        read = torch.ones(2)
        return resident.captured(lambda: total.add_(read), [total], torch.device("cuda")), read

    run, read = made()
    alive = weakref.ref(read)
    del read
    assert alive() is not None
    assert total.tolist() == [0.0, 0.0]
    run()
    assert len(replays) == 1
    del run
    assert alive() is None
