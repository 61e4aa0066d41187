"""Records of a history file as one flat table in float64, without loss."""

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.flows.papers.thermal_report.history import records as h
from hindcast.flows.papers.thermal_report.history.records import History, States
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.storage.files import read_parquet


def to_table(history: History) -> pl.DataFrame:
    """Return one row per record; columns are named by the path of keys, STATE.DC.TOTAL_HEAT."""
    columns = {"TIME": history.time, "ACTION": history.action, "REWARD": history.reward}
    for prefix, states in (("STATE", history.state), ("NEXT_STATE", history.next_state)):
        columns |= dict(zip(_names(prefix), _flat(states).T, strict=True))
    return pl.DataFrame(columns)


def read_table(path: Path) -> History:
    """Return the records of a file written from `to_table`; raise DatasetError for others."""
    table = read_parquet(path)
    expected = ["TIME", "ACTION", "REWARD", *_names("STATE"), *_names("NEXT_STATE")]
    if table.columns != expected:
        raise DatasetError(
            f"{path}: the columns are not those of a recorded history, expected {expected[0]} to "
            f"{expected[-1]}"
        )
    time, action = (table[name].to_numpy().astype(np.int64) for name in ("TIME", "ACTION"))
    return History(
        time,
        action,
        table["REWARD"].to_numpy(),
        _states(table.select(_names("STATE")).to_numpy()),
        _states(table.select(_names("NEXT_STATE")).to_numpy()),
    )


def _names(prefix: str) -> list[str]:
    servers = [f"SERVER_STATE.{n}.{key}" for n in range(h.SERVERS) for key in h.SERVER_KEYS]
    names = [*servers, *(f"JOB_STATE.{key}" for key in h.JOB_KEYS), "DC.TOTAL_HEAT"]
    return [f"{prefix}.{name}" for name in names]


def _flat(states: States) -> NDArray[np.float64]:
    """Return all values of R states, (R, 48)."""
    n = len(states.job)
    return np.concatenate(
        [states.servers.reshape(n, -1), states.job, states.total_heat[:, None]], axis=1
    )


def _states(flat: NDArray[np.float64]) -> States:
    """Invert `_flat`."""
    servers = h.SERVERS * len(h.SERVER_KEYS)
    return States(
        flat[:, :servers].reshape(len(flat), h.SERVERS, -1),
        flat[:, servers : servers + len(h.JOB_KEYS)],
        flat[:, -1],
    )
