"""Conversion of a history file to the columns of a dataset.

    record      0    1    2         3    4             episodes: records whose NEXT_STATE is the
    STATE       s0   s1   s2        u0   u1            next record's STATE, at a later TIME
    NEXT_STATE  s1   s2   s3        u1   u2
    rows        s0   s1   s2  s3 |  u0   u1   u2       s3, u2: closing rows

Values that a history file does not have are NaN: propensities and behaviour probabilities (it is
not known how these decisions were drawn), reward terms, and the features of a server that need a
calendar. The setting is `thermal` with features = "history", which hides those columns from
learners. So agents learned from the file can be tried in the simulator, beside every rule.

A history does not end, it just stops: the last decision of every episode is marked truncated.
"""

import numpy as np
from numpy.typing import NDArray

from hindcast.flows.papers.thermal_report.history import records as h
from hindcast.flows.papers.thermal_report.history.records import History, States
from hindcast.pipeline.dataset.building import recorder
from hindcast.pipeline.dataset.building.recorder import Log, make_log
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.scenarios.thermal.config import ThermalConfig
from hindcast.pipeline.scenarios.thermal.features import MOMENT, ROW
from hindcast.pipeline.simulation.kernel import RUNNING, TRUNCATED
from hindcast.pipeline.simulation.spec import Spec


def episodes(history: History) -> list[range]:
    """Return the records of every episode: runs whose NEXT_STATE is the next record's STATE."""
    after, before = history.next_state.arrays, history.state.arrays
    goes_on = np.diff(history.time) > 0
    for one, other in zip(after, before, strict=True):
        same = (one[:-1] == other[1:]) | (np.isnan(one[:-1]) & np.isnan(other[1:]))
        goes_on &= same.all(axis=tuple(range(1, same.ndim)))
    starts = [0, *(np.flatnonzero(~goes_on) + 1)]
    stops = [*starts[1:], len(history)]
    return [range(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]


def to_log(history: History, spec: Spec, config: ThermalConfig) -> Log:
    """Return all records as rows of a dataset part, with a closing row after every episode.

    `spec` is that of `thermal` under `config`, which also gives alpha and beta.
    """
    runs = episodes(history)
    n = len(history)
    rows = n + len(runs)
    # observations: the states of all records, then their next states; of these the closing ones
    order = np.concatenate([np.r_[run.start : run.stop, n + run.stop - 1] for run in runs])
    closing = order >= n
    states = _joined(history.state, history.next_state, order)
    log = make_log(spec, rows, rows * h.SERVERS)
    log.context[:] = _context(states, config)
    log.candidates[:] = _candidates(states, len(spec.candidates))
    log.feasible[:] = states.servers[:, :, h.IS_VALID].ravel() != 0
    log.probabilities[:] = np.repeat(np.where(closing, 0.0, np.nan), h.SERVERS)
    log.propensity[:] = np.where(closing, 0.0, np.nan)

    of = np.minimum(order, n - 1)  # the record of a row; unused in closing rows
    lengths = [len(run) + 1 for run in runs]
    log.labels[recorder.L_EPISODE, :rows] = np.repeat(np.arange(len(runs)), lengths)
    log.labels[recorder.L_STEP, :rows] = np.concatenate([np.arange(length) for length in lengths])
    log.labels[recorder.L_CHOICE, :rows] = np.where(closing, NO_CHOICE, history.action[of])
    log.labels[recorder.L_STATUS, :rows] = np.where(
        np.append(closing[1:], False), TRUNCATED, RUNNING
    )
    log.labels[recorder.L_OFFSET] = np.arange(rows + 1) * h.SERVERS
    time = np.where(closing, _closing_time(history, order - n), history.time[of])
    log.numbers[recorder.N_TIME] = time
    log.numbers[recorder.N_ELAPSED] = np.where(closing, 0.0, np.append(np.diff(time), 0.0))
    log.numbers[recorder.N_REWARD] = np.where(closing, 0.0, history.reward[of])
    log.numbers[recorder.N_TERMS :] = np.where(closing, 0.0, np.nan)
    log.cursor[recorder.C_ROW], log.cursor[recorder.C_VALUE] = rows, rows * h.SERVERS
    return log


def _joined(state: States, next_state: States, order: NDArray[np.int64]) -> States:
    return States(
        *(np.concatenate(pair)[order] for pair in zip(state.arrays, next_state.arrays, strict=True))
    )


def _closing_time(history: History, record: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return when episodes stopped: the submission in NEXT_STATE, at least 1 after the record."""
    submit: NDArray[np.float64] = history.next_state.job[record, h.SUBMIT_TIME]
    left: NDArray[np.float64] = np.maximum(submit, history.time[record] + 1.0)
    return left


def _context(states: States, config: ThermalConfig) -> NDArray[np.float64]:
    """Return the features (C, R) in the order of `thermal`."""
    submit, deadline, process, resources = states.job[:, : h.FINISH_TIME].T
    slack = np.where(process > 0, deadline - submit - process + 1, 0.0)
    moment = MOMENT._replace(
        submit=submit, process=process, resources=resources, deadline=deadline, slack=slack,
        total_heat=states.total_heat, alpha=np.full(len(submit), config.alpha),
        beta=np.full(len(submit), config.beta),
    )  # fmt: skip
    return np.stack(moment)


def _candidates(states: States, columns: int) -> NDArray[np.float64]:
    """Return the features (F, R * 6) in the order of `thermal`; NaN for unknown ones."""
    servers = states.servers.reshape(-1, len(h.SERVER_KEYS)).T
    x, y = servers[h.X], servers[h.Y]
    values = np.full((columns, servers.shape[1]), np.nan)
    values[ROW.server] = np.tile(np.arange(h.SERVERS), len(states.servers))
    values[ROW.capacity], values[ROW.x], values[ROW.y] = servers[h.RESOURCE], x, y
    values[ROW.distance] = np.sqrt(x * x + y * y)
    values[ROW.usage], values[ROW.energy] = servers[h.USAGE], servers[h.ENERGY]
    values[ROW.heat] = servers[h.HEAT]
    return values
