"""History files as the report's own generator wrote them, for the tests of what reads them.

States hold usage, energy and heat AFTER the placement and the finish time. Such a state reveals the
decision; nothing should be learned from it. The reward is

    5 sum_i (u_i + 1e-7) / (c_i + 1e-7) + 1000 (H(t) - H(t - 1))

which gives the 27.00000047999997 of the report's Figure 4 to the last digit. Its heat term has the
opposite sign of the report's Eq 5.
"""

import numpy as np

from hindcast.flows.papers.thermal_report.history import records as h
from hindcast.flows.papers.thermal_report.history.exporting import _joined, _Rows
from hindcast.flows.papers.thermal_report.history.records import History, States
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.scenarios.thermal.config import settled
from hindcast.pipeline.scenarios.thermal.features import ROW
from hindcast.pipeline.scenarios.thermal.instances import energy, full_heat

_FILE_ALPHA = 5.0
_FILE_BETA = 1000.0
_FILE_EPSILON = 1e-7


def leaky_history(blocks, config):
    """Return the decisions of a `thermal` dataset of this setting as the report's leaky records."""
    rows = _joined([_Rows(block) for block in blocks])
    here = np.flatnonzero(rows.choice != NO_CHOICE)
    delays = np.concatenate([b.candidates[:, ROW.delay].reshape(-1, h.SERVERS) for b in blocks])
    states, reward = _after_placement(rows, delays, settled(config))
    return History(
        rows.time[here].astype(np.int64), rows.choice[here], reward[here],
        states.rows(here), states.rows(here + 1),
    )  # fmt: skip


def _after_placement(rows, delays, config):
    """Return the states after each placement, with finish times, and the rewards of the file."""
    here = np.flatnonzero(rows.choice != NO_CHOICE)
    chosen = rows.choice[here]
    delay = delays[here, chosen]
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


def _heat_chain(rows, heat, decay):
    """Return total heat before and after every row, in float64 where no step is missing."""
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
