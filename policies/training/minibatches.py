"""Minibatches of logged decisions: rows gathered by index, with their features expanded.

    batches = Batches(decisions, network, device)
    batch = batches.at(draw_rows(len(decisions), 256, rng))       the decisions
    steps = batches.transitions(rows)                             the decisions and what followed

On a CPU the compiled map expands rows. It expands them once if the result takes little memory, else
as they are drawn, which costs a tenth of a network's update. On another device the feasible
candidates are moved there once, and gathered and expanded there; afterwards only indices are sent.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError
from hindcast.policies.networks.candidate_scorer import expand_moment
from hindcast.policies.networks.features import FeatureMap
from hindcast.policies.networks.settings import Network

_EXPANDED_BYTES: Final = 128 << 20  # of the candidates of one set of observations

Image = NDArray[np.uint8] | None
Columns = tuple[NDArray[np.float32], Image, NDArray[np.float32], NDArray[np.bool_]]


@dataclass(frozen=True)
class Observations:
    """B observations, ready for a scorer.

    Attributes:
        candidates: (sum of mask, E), the rows that the mask allows.
        context: (B, G + P), with the P pixels of an image if the network reads one.
        mask: (B, K) bool.
    """

    candidates: Tensor
    context: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Minibatch(Observations):
    """B decisions: their observations and choices.

    Attributes:
        choice: (B,) int64, position of the logged choice.
        drawn: (B,) int64, number of feasible candidates before the cut to K.
    """

    choice: Tensor
    drawn: Tensor


@dataclass(frozen=True)
class Outcomes:
    """Rewards and ends of B decisions, from which targets are computed.

    Attributes:
        reward: (B,) float32, in the units of the log.
        elapsed_s: (B,) float32, in seconds.
        to_go: (B,) float32, rewards from here to the end of the episode; NaN if they are not known.
        terminal: (B,) float32, 1 if the episode ended with the decision, else 0.
    """

    reward: Tensor
    elapsed_s: Tensor
    to_go: Tensor
    terminal: Tensor


@dataclass(frozen=True)
class Transitions(Outcomes):
    """B decisions with their rewards and the observations that followed.

    Attributes:
        now: The decisions.
        after: The observations that followed; without candidates if `terminal`.
    """

    now: Minibatch
    after: Observations


class Batches:
    """Minibatches of decisions, in the memory of `device`.

    If `resident` is true, the decisions are moved to the device once; by default they are, except
    on a CPU.
    """

    def __init__(
        self,
        decisions: Decisions,
        network: Network,
        device: torch.device,
        *,
        resident: bool | None = None,
    ) -> None:
        d = decisions
        moved = device.type != "cpu" if resident is None else resident

        def source(*columns: *Columns) -> "_Gathered | _Resident":
            return _Resident(network, device, columns) if moved else _Gathered(network, columns)

        self.device = device
        self._now = source(d.context, d.image, d.candidates, d.mask)
        self._after = None
        if d.next_context is not None and d.next_candidates is not None and d.next_mask is not None:
            self._after = source(d.next_context, d.next_image, d.next_candidates, d.next_mask)
        self._choice = torch.from_numpy(d.choice).to(device)
        self._drawn = torch.from_numpy(d.drawn).to(device)
        self._outcomes = outcomes(d, device)

    def at(self, rows: NDArray[np.int64]) -> Minibatch:
        """Return the decisions at `rows` (B,), in that order."""
        return self._minibatch(rows, torch.from_numpy(rows).to(self.device))

    def transitions(self, rows: NDArray[np.int64]) -> Transitions:
        """Return the decisions at `rows` (B,) with what followed.

        Raises DatasetError if the decisions came without what followed.
        """
        if self._after is None:
            raise DatasetError(
                "these decisions came without what followed them; load with transitions"
            )
        index, found = torch.from_numpy(rows).to(self.device), self._outcomes
        return Transitions(
            now=self._minibatch(rows, index),
            reward=found.reward[index],
            elapsed_s=found.elapsed_s[index],
            to_go=found.to_go[index],
            terminal=found.terminal[index],
            after=self._after.observations(rows),
        )

    def _minibatch(self, rows: NDArray[np.int64], index: Tensor) -> Minibatch:
        seen = self._now.observations(rows)
        return Minibatch(
            seen.candidates, seen.context, seen.mask, self._choice[index], self._drawn[index]
        )


class _Gathered:
    """Observations that are gathered in main memory and expanded per minibatch."""

    def __init__(self, network: Network, columns: Columns) -> None:
        self._network = network
        self._context, self._image, self._candidates, self._mask = columns
        self._packed: _Packed | None = None
        if int(self._mask.sum()) * network.candidates.size * 4 <= _EXPANDED_BYTES:
            expanded = network.candidates.expand(self._candidates[self._mask])
            self._packed = _Packed(torch.from_numpy(expanded), self._mask)

    def observations(self, rows: NDArray[np.int64]) -> Observations:
        mask = self._mask[rows]
        image = None if self._image is None else self._image[rows]
        if self._packed is not None:
            candidates = self._packed.at(rows)
        else:
            raw = self._candidates[rows][mask]
            candidates = torch.from_numpy(self._network.candidates.expand(raw))
        context = expand_moment(self._network, self._context[rows], image)
        return Observations(candidates, torch.from_numpy(context), torch.from_numpy(mask))


class _Packed:
    """The feasible candidates of all observations, one after the other, found through offsets."""

    def __init__(self, candidates: Tensor, mask: NDArray[np.bool_]) -> None:
        self._candidates = candidates
        self._count = mask.sum(axis=1)
        self._start = np.cumsum(self._count) - self._count

    def at(self, rows: NDArray[np.int64]) -> Tensor:
        """Return the candidates of the observations at `rows`, in that order."""
        count = self._count[rows]
        before = np.cumsum(count) - count
        index = np.repeat(self._start[rows] - before, count) + np.arange(count.sum())
        place = self._candidates.device
        return self._candidates.index_select(0, torch.from_numpy(index).to(place))


class _Resident:
    """Observations on a device, with their feasible candidates only."""

    def __init__(self, network: Network, device: torch.device, columns: Columns) -> None:
        context, image, candidates, mask = columns
        self._maps = (_Expansion(network.candidates, device), _Expansion(network.context, device))
        self._packed = _Packed(torch.from_numpy(candidates[mask]).to(device), mask)
        self._context = torch.from_numpy(context).to(device)
        self._image = None
        if network.pixels:
            if image is None:
                raise DatasetError("this network reads an image, but these decisions have none")
            self._image = torch.from_numpy(image).to(device)
        self._mask = torch.from_numpy(mask).to(device)

    def observations(self, rows: NDArray[np.int64]) -> Observations:
        index = torch.from_numpy(rows).to(self._mask.device)
        expand, expand_context = self._maps
        moment = expand_context(self._context[index])
        if self._image is not None:
            moment = torch.cat([moment, self._image[index].float() / 255.0], dim=1)
        return Observations(expand(self._packed.at(rows)), moment, self._mask[index])


class _Expansion:
    """The expansion of policies.networks.features on tensors, equal up to float32's last digit."""

    def __init__(self, feature_map: FeatureMap, device: torch.device) -> None:
        self._columns = torch.from_numpy(feature_map.columns).to(device)
        self._heavy = torch.from_numpy(feature_map.heavy).to(device)
        self._logs = torch.from_numpy(np.flatnonzero(feature_map.heavy)).to(device)
        n = feature_map.products
        self._pairs = torch.triu_indices(n, n, device=device)
        self._mean = torch.from_numpy(feature_map.mean).to(device)
        self._inverse = torch.from_numpy(feature_map.inverse).to(device)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return network inputs (M, E) of raw rows (M, F)."""
        raw = rows.index_select(1, self._columns).double()
        base = torch.where(self._heavy, raw.sign() * raw.abs().log1p(), raw)
        products = base.index_select(1, self._pairs[0]) * base.index_select(1, self._pairs[1])
        expanded = torch.cat([raw, base.index_select(1, self._logs), products], dim=1)
        return ((expanded - self._mean) * self._inverse).float()


def outcomes(decisions: Decisions, device: torch.device) -> Outcomes:
    """Return what all decisions led to, in the memory of `device`."""
    to_go = np.full(len(decisions), np.nan) if decisions.to_go is None else decisions.to_go
    columns = (decisions.reward, decisions.elapsed_s, to_go, decisions.terminated)
    return Outcomes(*(torch.from_numpy(c.astype(np.float32)).to(device) for c in columns))


def draw_rows(count: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return `size` of `count` rows, drawn uniformly with replacement."""
    return rng.integers(0, count, size)


def spaced_rows(count: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` of `count` rows, evenly spaced: the same ones at every call."""
    return np.arange(0, count, max(1, -(-count // most)))
