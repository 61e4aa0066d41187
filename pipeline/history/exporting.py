"""From a dataset's columns to a history file.

What the file has no place for is left out: the calendar's columns, propensities, reward terms, how
episodes ended. Numbers that a dataset holds as float32 are written with the fewest digits that mean
them, so that reading the file again gives the same float32.

`leaky` writes what the report's generator wrote: usage, energy and heat AFTER the placement and the
finish time. Such a state reveals the decision; nothing should be learned from it. Its reward is

    5 sum_i (u_i + 1e-7) / (c_i + 1e-7) + 1000 (H(t) - H(t - 1))

which gives the 27.00000047999997 of the report's Figure 4 to the last digit. Its heat term has the
opposite sign of the report's Eq 5.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.dataset.columns import NO_CHOICE
from pipeline.dataset.part import Block
from pipeline.errors import DatasetError
from pipeline.history import records as h
from pipeline.history.records import History, States
from pipeline.scenarios.thermal.config import ThermalConfig, settled
from pipeline.scenarios.thermal.instances import energy, full_heat

_FILE_ALPHA: Final = 5.0
_FILE_BETA: Final = 1000.0
_FILE_EPSILON: Final = 1e-7
_DELAY: Final = 8  # column of a candidate


def to_history(blocks: Iterable[Block], leaky: ThermalConfig | None = None) -> History:
    """The decisions of a `thermal` dataset as records, episodes one after the other.

    `leaky` is the dataset's setting where the report's leaky states are wanted. Raises DatasetError
    where the columns are not those of `thermal`, or do not tell when jobs started.
    """
    pieces = [_Rows(block) for block in blocks if len(block)]
    if not pieces:
        raise DatasetError("the dataset has no decisions to write")
    rows = _joined(pieces)
    here = np.flatnonzero(rows.choice != NO_CHOICE)
    if leaky is None:
        return History(
            rows.time[here].astype(np.int64), rows.choice[here], rows.reward[here],
            rows.states.rows(here), rows.states.rows(here + 1),
        )  # fmt: skip
    states, reward = _after_placement(rows, settled(leaky))
    return History(
        rows.time[here].astype(np.int64), rows.choice[here], reward[here],
        states.rows(here), states.rows(here + 1),
    )  # fmt: skip


class _Rows:
    """All rows of a block, closing ones too: states, and what was chosen in them."""

    def __init__(self, block: Block) -> None:
        n = len(block)
        if block.candidates.shape[1] <= _DELAY or not np.array_equal(
            block.offsets, np.arange(n + 1) * h.SERVERS
        ):
            raise DatasetError(
                f"these decisions are not among {h.SERVERS} servers: only datasets of the scenario "
                "thermal can be written as a history file"
            )
        candidates = _widened(block.candidates).reshape(n, h.SERVERS, -1)
        context = _widened(block.context)
        submit, process, resources, deadline, _slack, heat = context[:, :6].T
        valid = block.feasible.reshape(n, h.SERVERS, 1)
        self.states = States(
            np.concatenate([candidates[:, :, [1, 2, 3, 5, 6, 7]], valid], axis=2),
            np.stack([submit, deadline, process, resources, np.full(n, np.nan)], axis=1),
            heat,
        )
        self.delay = candidates[:, :, _DELAY]
        self.time, self.choice, self.reward = block.time_s, block.choice, block.reward


def _widened(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """float64 with the fewest digits that mean the same float32: .475, not .47499999."""
    different, where = np.unique(values, return_inverse=True)
    short: NDArray[np.float64] = different.astype(np.str_).astype(np.float64)
    return short[where].reshape(values.shape)


def _joined(pieces: list[_Rows]) -> _Rows:
    whole = pieces[0]
    whole.states = States(
        *(np.concatenate(a) for a in zip(*(p.states.arrays for p in pieces), strict=True))
    )
    for name in ("delay", "time", "choice", "reward"):
        setattr(whole, name, np.concatenate([getattr(p, name) for p in pieces]))
    return whole


def _after_placement(rows: _Rows, config: ThermalConfig) -> tuple[States, NDArray[np.float64]]:
    """States as they are once the job is placed, with its finish time; rewards of the file."""
    here = np.flatnonzero(rows.choice != NO_CHOICE)
    chosen = rows.choice[here]
    delay = rows.delay[here, chosen]
    if np.isnan(delay).any():
        raise DatasetError(
            "this dataset was itself read from a history file: it does not tell when jobs started, "
            "so leaky states cannot be made"
        )
    servers, job = rows.states.servers.copy(), rows.states.job.copy()
    finish = rows.time[here] + delay + job[here, h.PROCESS_TIME] - 1
    job[here, h.FINISH_TIME] = finish
    starts_now = delay == 0
    capacity = servers[here, chosen, h.RESOURCE]
    used = np.rint(servers[here, chosen, h.USAGE] * capacity)
    used += np.where(starts_now, job[here, h.RESOURCES], 0.0)
    servers[here, chosen, h.USAGE] = used / capacity
    drawn = energy(servers[:, :, h.USAGE], idle_power=config.idle_power)
    distance = np.sqrt(servers[:, :, h.X] ** 2 + servers[:, :, h.Y] ** 2)
    assert config.k is not None
    heat = drawn * full_heat(distance, config.k)
    servers[here, :, h.ENERGY], servers[here, :, h.HEAT] = drawn[here], heat[here]
    before, after = _heat_chain(rows, heat, config.decay)
    efficiency = (servers[:, :, h.USAGE] + _FILE_EPSILON) / (drawn + _FILE_EPSILON)
    reward = _FILE_ALPHA * efficiency.sum(axis=1) + _FILE_BETA * (after - before)
    total = rows.states.total_heat.copy()
    total[here] = after[here]
    return States(servers, job, total), reward


def _heat_chain(
    rows: _Rows, heat: NDArray[np.float64], decay: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Total heat before and after every row, in float64 from step to step where none is missing."""
    before, after = rows.states.total_heat.copy(), np.zeros(len(heat))
    for row in range(len(heat)):
        follows = row > 0 and rows.choice[row - 1] != NO_CHOICE
        if follows and rows.time[row] == rows.time[row - 1] + 1:
            before[row] = after[row - 1]
        total = 0.0
        for amount in heat[row]:
            total += amount
        after[row] = total + decay * before[row]
    return before, after
