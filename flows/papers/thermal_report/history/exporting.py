"""Conversion of a dataset's columns to a history file.

Values that have no key in the file are left out: the calendar's columns, propensities, reward
terms, and how episodes ended. Numbers that a dataset holds as float32 are written with the fewest
digits that identify them, so that reading the file again gives the same float32.

States are those before the decision. The report's own generator wrote usage, energy and heat after
the placement, and the finish time. Such a state reveals the decision, so it is not written.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.flows.papers.thermal_report.history import records as h
from hindcast.flows.papers.thermal_report.history.records import History, States
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.part import Block
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.scenarios.thermal.features import MOMENT, ROW

_SERVER: Final = [ROW.capacity, ROW.x, ROW.y, ROW.usage, ROW.energy, ROW.heat]
_JOB: Final = [MOMENT.submit, MOMENT.deadline, MOMENT.process, MOMENT.resources]


def to_history(blocks: Iterable[Block]) -> History:
    """Return the decisions of a `thermal` dataset as records, episodes one after the other.

    Raises DatasetError if the columns are not those of `thermal`.
    """
    pieces = [_Rows(block) for block in blocks if len(block)]
    if not pieces:
        raise DatasetError("the dataset has no decisions to write")
    rows = _joined(pieces)
    here = np.flatnonzero(rows.choice != NO_CHOICE)
    return History(
        rows.time[here].astype(np.int64), rows.choice[here], rows.reward[here],
        rows.states.rows(here), rows.states.rows(here + 1),
    )  # fmt: skip


class _Rows:
    """States and choices of all rows of a block, including closing rows."""

    def __init__(self, block: Block) -> None:
        n = len(block)
        # `thermal` has a candidate for every server at every decision, with at least these columns.
        if block.candidates.shape[1] <= ROW.delay or not np.array_equal(
            block.offsets, np.arange(n + 1) * h.SERVERS
        ):
            raise DatasetError(
                f"the decisions of this dataset are not among {h.SERVERS} servers; only datasets "
                "of the scenario thermal can be written as a history file"
            )
        candidates = _widened(block.candidates).reshape(n, h.SERVERS, -1)
        context = _widened(block.context)
        valid = block.feasible.reshape(n, h.SERVERS, 1)
        finish_time = np.full(n, np.nan)  # unknown before the decision
        self.states = States(
            servers=np.concatenate([candidates[:, :, _SERVER], valid], axis=2),
            job=np.column_stack([context[:, _JOB], finish_time]),
            total_heat=context[:, MOMENT.total_heat],
        )
        self.time, self.choice, self.reward = block.time_s, block.choice, block.reward


def _widened(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return float64 with the fewest digits that mean the same float32: .475, not .47499999."""
    different, where = np.unique(values, return_inverse=True)
    short: NDArray[np.float64] = different.astype(np.str_).astype(np.float64)
    return short[where].reshape(values.shape)


def _joined(pieces: list[_Rows]) -> _Rows:
    whole = pieces[0]
    whole.states = States(
        *(np.concatenate(a) for a in zip(*(p.states.arrays for p in pieces), strict=True))
    )
    for name in ("time", "choice", "reward"):
        setattr(whole, name, np.concatenate([getattr(p, name) for p in pieces]))
    return whole
