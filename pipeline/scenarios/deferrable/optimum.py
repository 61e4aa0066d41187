"""The offline optimum of a `deferrable` instance, with all jobs and capacities known, by HiGHS.

    maximise    sum_i sum_s X_is (c_i d_i - w1 (s - e_i)) - w2 sum_t v_t
    subject to  sum_s X_is <= 1                                            every job i
                sum of c_i X_is over s <= t < s + d_i   <=   C_t + v_t      every slot t < T
                X_is in {0, 1} for e_i <= s <= min(l_i, T - 1),  v_t >= 0

No policy has a higher total reward: a policy starts jobs one slot at a time under the same
constraints. Unlike this problem, it may not start a job beyond the capacity. With `relaxed`, X_is
is in [0, 1].

HiGHS is part of the optional package highspy, which is imported when it is used. `upper_bound` of
hindcast.pipeline.scenarios.deferrable.bounds is nearly as low and needs no package.

Source: Dong et al., problem (1).
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.storage.extras import installed, missing

_TIME_LIMIT_S: Final = 60.0
# the variables X_is: job, start, pay; arrays (K,)
_Columns: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
_TOLERANCE: Final = 1e-6  # relative gap between value and bound at which HiGHS stops


@dataclass(frozen=True)
class Optimum:
    """The result of HiGHS.

    Attributes:
        value: Total reward of the best plan found, or value of the relaxation.
        bound: Total reward that no plan exceeds; equals `value` up to the tolerance if `proven`.
        starts: Slot in which each job starts, (J,); -1 for a job that never starts. None for the
            relaxation.
        proven: Whether the plan was proven optimal within the tolerance.
    """

    value: float
    bound: float
    starts: NDArray[np.int64] | None
    proven: bool


def available() -> bool:
    """Return whether HiGHS is installed."""
    return installed("highspy")


def optimum(instance: Instance, *, relaxed: bool = False) -> Optimum:
    """Return the best plan for an instance at its first decision, or the value of the relaxation.

    Raises InputError if highspy is not installed, and HindcastError if HiGHS finds no plan in time.
    """
    try:
        highspy: Any = import_module("highspy")
    except ImportError as error:
        raise missing("highspy", "the offline optimum") from error
    columns = _columns(instance)
    job, start, _ = columns
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)  # noqa: FBT003
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", _TIME_LIMIT_S)
    solver.setOptionValue("mip_rel_gap", _TOLERANCE)
    solver.passModel(_model(highspy, instance, columns, relaxed))
    solver.run()
    status = solver.getModelStatus()
    info = solver.getInfo()
    proven = status == highspy.HighsModelStatus.kOptimal
    if not proven and (relaxed or not np.isfinite(info.mip_dual_bound)):
        raise HindcastError(f"HiGHS found no plan: {solver.modelStatusToString(status)}")
    value = float(info.objective_function_value)
    if relaxed:
        return Optimum(value, value, None, proven)
    chosen = np.array(solver.getSolution().col_value)[: len(job)] > 0.5
    starts = np.full(instance.ints[m.JOBS], -1, np.int64)
    starts[job[chosen]] = start[chosen]
    return Optimum(value, float(info.mip_dual_bound), starts, proven)


def _columns(instance: Instance) -> _Columns:
    """Return the variables X_is: job, start and pay."""
    ints, n = instance.ints, int(instance.ints[m.JOBS])
    earliest, latest = m.block(ints, m.EARLIEST_AT, n), m.block(ints, m.LATEST_AT, n)
    work = m.block(ints, m.CORES_AT, n) * m.block(ints, m.DURATION_AT, n)
    starts = np.minimum(latest, ints[m.HORIZON] - 1) - earliest + 1
    job = np.repeat(np.arange(n), starts)
    delay = np.arange(len(job)) - np.repeat(np.cumsum(starts) - starts, starts)
    pays = work[job] - instance.floats[m.DELAY_WEIGHT] * delay
    return job, earliest[job] + delay, pays


def _model(highspy: Any, instance: Instance, columns: _Columns, relaxed: bool) -> Any:
    """Return the problem for HiGHS: rows are jobs then slots, columns are X_is then v_t."""
    job, start, pays = columns
    ints, horizon = instance.ints, int(instance.ints[m.HORIZON])
    n, k = int(ints[m.JOBS]), len(job)
    capacity = m.block(ints, m.CAPACITY_AT, horizon)
    cores = m.block(ints, m.CORES_AT, n)[job]
    duration = m.block(ints, m.DURATION_AT, n)[job]
    slots = np.minimum(start + duration, horizon) - start
    # A column X_is has an entry in its job's row and one in each slot that it occupies.
    first = np.concatenate([[0], np.cumsum(1 + slots)])
    index = np.empty(first[-1], np.int64)
    value = np.empty(first[-1])
    index[first[:-1]], value[first[:-1]] = job, 1.0
    within = np.arange(slots.sum()) - np.repeat(np.cumsum(slots) - slots, slots)
    at = np.repeat(first[:-1] + 1, slots) + within
    index[at] = n + np.repeat(start, slots) + within
    value[at] = np.repeat(cores, slots)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = k + horizon, n + horizon
    model.sense_ = highspy.ObjSense.kMaximize
    over = np.full(horizon, -instance.floats[m.VIOLATION_WEIGHT])
    model.col_cost_ = np.concatenate([pays, over])
    model.col_lower_ = np.zeros(k + horizon)
    model.col_upper_ = np.concatenate([np.ones(k), np.full(horizon, highspy.kHighsInf)])
    model.row_lower_ = np.full(n + horizon, -highspy.kHighsInf)
    model.row_upper_ = np.concatenate([np.ones(n), capacity.astype(np.float64)])
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.concatenate([first, first[-1] + np.arange(1, horizon + 1)])
    model.a_matrix_.index_ = np.concatenate([index, n + np.arange(horizon)])
    model.a_matrix_.value_ = np.concatenate([value, np.full(horizon, -1.0)])
    if not relaxed:
        integer, continuous = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        model.integrality_ = [integer] * k + [continuous] * horizon
    return model
