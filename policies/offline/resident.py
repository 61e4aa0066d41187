"""Transitions that stay on a device, padded to K candidates, and steps captured as one CUDA graph.

A graph replays the same kernels on the same addresses. So whatever it reads has a fixed shape and
place: observations are padded, and a step gathers its rows from them by an index on the device. The
index is drawn by numpy's generator on the host, as for every other training, so an agent sees the
same minibatches on every device. A step sends B numbers, and waits for nothing.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError
from hindcast.policies.networks.settings import Network

_ON_CPU: Final = 2 << 30  # bytes of padded transitions
_SHARE: Final = 0.5  # of the memory of another device; minibatches and their gradients need some
_WARM_UP: Final = 3  # steps before a capture, in which libraries allocate what they need


@dataclass(frozen=True)
class Padded:
    """D transitions with expanded features; rows that the mask forbids are zero.

    Attributes:
        candidates: (D, K, E) float32.
        context: (D, G) float32.
        mask: (D, K) bool.
        choice: (D,) int64, position of the logged choice.
        after_candidates: (D, K, E) float32, of the observations that followed.
        after_context: (D, G) float32.
        after_mask: (D, K) bool, all false if no observation followed.
    """

    candidates: Tensor
    context: Tensor
    mask: Tensor
    choice: Tensor
    after_candidates: Tensor
    after_context: Tensor
    after_mask: Tensor

    def at(self, rows: Tensor) -> "Padded":
        """Return the transitions at `rows` (..., B), in tensors of shape (..., B, ...)."""
        flat = rows.reshape(-1)

        def gathered(column: Tensor) -> Tensor:
            return column.index_select(0, flat).view(*rows.shape, *column.shape[1:])

        return Padded(*(gathered(getattr(self, f.name)) for f in fields(self)))


def padded_bytes(decisions: Decisions, network: Network) -> int:
    """Return the memory that the padded transitions of a log take, in bytes."""
    k = decisions.mask.shape[1]
    row: int = k * (4 * network.candidates.size + 1) + 4 * network.context.size
    return len(decisions) * (2 * row + 8)


def memory(device: torch.device) -> int:
    """Return the bytes that padded transitions may take on a device, the same at every call."""
    if device.type != "cuda":
        return _ON_CPU
    return int(_SHARE * float(torch.cuda.get_device_properties(device).total_memory))


def padded(logs: Sequence[tuple[Decisions, Network]], device: torch.device) -> Padded:
    """Return the transitions of all logs, one log after the other, in the memory of `device`.

    Every log is expanded by its own network's maps. They are moved one at a time, so that main
    memory holds one expanded log. Raises DatasetError if decisions came without what followed.
    """
    total = sum(len(decisions) for decisions, _ in logs)
    kept: list[Tensor] = []
    start = 0
    for decisions, network in logs:
        for i, column in enumerate(_columns(decisions, network)):
            if start == 0:
                shape = (total, *column.shape[1:])
                kept.append(torch.zeros(shape, dtype=column.dtype, device=device))
            kept[i][start : start + len(decisions)].copy_(column)
        start += len(decisions)
    return Padded(*kept)


def _columns(decisions: Decisions, network: Network) -> list[Tensor]:
    """Return the columns of Padded in their order, in main memory.

    Raises DatasetError if the decisions came without what followed them.
    """
    d = decisions
    if d.next_context is None or d.next_candidates is None or d.next_mask is None:
        raise DatasetError("these decisions came without what followed them; load with transitions")

    def rows(candidates: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the expanded features (D, K, E) of candidates; 0 where the mask forbids one."""
        expanded = np.zeros((*mask.shape, network.candidates.size), np.float32)
        expanded[mask] = network.candidates.expand(candidates[mask])
        return expanded

    columns: tuple[NDArray[Any], ...] = (
        rows(d.candidates, d.mask), network.context.expand(d.context), d.mask, d.choice,
        rows(d.next_candidates, d.next_mask), network.context.expand(d.next_context), d.next_mask,
    )  # fmt: skip
    return [torch.from_numpy(np.ascontiguousarray(column)) for column in columns]


def captured(
    step: Callable[[], None], state: Sequence[Tensor], device: torch.device
) -> Callable[[], None]:
    """Return a function with the effect of `step`: on a CUDA device the replay of its graph.

    Args:
        step: Function that reads and writes tensors of fixed shape in place, does not wait for the
            device, and is not random.
        state: Every tensor that `step` changes and reads again. Steps are taken before the capture,
            and the state is put back afterwards.
        device: Device of the tensors. On a CPU, `step` itself is returned, and on another device,
            with a warning, if the capture fails.
    """
    if device.type != "cuda":
        return step
    before = [tensor.clone() for tensor in state]
    aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):
        for _ in range(_WARM_UP):
            step()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    run: Callable[[], None] = partial(_replay, graph, step)
    try:
        with torch.cuda.graph(graph):
            step()
    except RuntimeError as error:
        warnings.warn(f"steps are taken without a CUDA graph: {error}", stacklevel=2)
        run = step
    for tensor, value in zip(state, before, strict=True):
        tensor.copy_(value)
    return run


def _replay(graph: torch.cuda.CUDAGraph, _step: Callable[[], None]) -> None:
    """Replay a graph; the step is held because the graph reads the tensors that the step holds."""
    graph.replay()


def send(rows: NDArray[np.int64], place: Tensor) -> None:
    """Copy rows into a tensor on its device without waiting for what runs there.

    A copy from pinned memory is asynchronous. torch keeps the memory until the copy is done.
    """
    given = torch.from_numpy(rows)
    if place.device.type == "cuda":
        given = given.pin_memory()
    place.copy_(given, non_blocking=True)
