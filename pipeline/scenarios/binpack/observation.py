"""Observations of `binpack`: rows of fitting pairs, written anew or brought up to date."""

from numba import types

from pipeline.scenarios.binpack.layout import (
    ARRIVED,
    CORE_UNIT,
    CORES_AT,
    DURATION_AT,
    EXTENDED,
    FREE_CORES_AT,
    FREE_MEMORY_AT,
    LARGEST_CORES,
    LARGEST_MEMORY,
    MACHINES,
    MEMORY_AT,
    MEMORY_UNIT,
    ONE,
    PAIRS,
    PAIRS_AT,
    PLACED,
    ROWS_AT,
    RUNNING_AT,
    RUNNING_TASKS,
    RUNNING_TOTAL,
    SHOWN_CORES_AT,
    SHOWN_MEMORY_AT,
    TASKS,
    TOTAL_AT,
    UNPLACED_AT,
    UNPLACED_TOTAL,
    WAIT_ROW,
    WAITING,
    WAITING_AT,
    U,
)
from pipeline.simulation.kernel import FLOATS, FRESH, INTS, OBSERVE, ROWS, compiled


@compiled(types.void(INTS, FLOATS, ROWS))
def _write_rows(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Write the row of every fitting pair."""
    machines = ints[MACHINES]
    cores, memory, duration = U(ints[CORES_AT]), U(ints[MEMORY_AT]), U(ints[DURATION_AT])
    shown_cores, shown_memory = U(ints[SHOWN_CORES_AT]), U(ints[SHOWN_MEMORY_AT])
    unplaced, pairs, rows = U(ints[UNPLACED_AT]), U(ints[PAIRS_AT]), U(ints[ROWS_AT])
    first_waiting = U(ints[WAITING_AT])
    last_waiting = first_waiting + U(ints[WAITING])
    n = U(0)
    for machine in range(machines):
        ints[rows + U(machine)] = n
        free_cores = floats[U(ints[FREE_CORES_AT] + machine)]
        free_memory = floats[U(ints[FREE_MEMORY_AT] + machine)]
        free_cores_shown = free_cores / floats[CORE_UNIT]
        free_memory_shown = free_memory / floats[MEMORY_UNIT]
        for i in range(first_waiting, last_waiting):
            task = U(ints[i])
            if floats[cores + task] <= free_cores and floats[memory + task] <= free_memory:
                candidates[n, 0] = free_cores_shown
                candidates[n, 1] = free_memory_shown
                candidates[n, 2] = floats[shown_cores + task]
                candidates[n, 3] = floats[shown_memory + task]
                candidates[n, 4] = floats[duration + task]
                candidates[n, 5] = ints[unplaced + task]
                candidates[n, 6] = machine
                ints[pairs + n] = ints[i] * machines + machine
                n += ONE
    ints[rows + U(machines)] = n
    ints[PAIRS] = n


@compiled(types.void(INTS, ROWS, types.uint64, types.uint64))
def _move_row(ints, candidates, source, target):  # type: ignore[no-untyped-def]
    """Copy a row and its pair to an earlier place."""
    for column in range(7):
        candidates[target, column] = candidates[source, column]
    pairs = U(ints[PAIRS_AT])
    ints[pairs + target] = ints[pairs + source]


@compiled(types.void(INTS, FLOATS, ROWS))
def _update_rows(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Bring the rows up to date after one placement at the same tick.

    Only the rows of its machine (free resources, fits) and of its task (unplaced) can change.
    """
    machines = ints[MACHINES]
    cores, memory = U(ints[CORES_AT]), U(ints[MEMORY_AT])
    pairs, rows = U(ints[PAIRS_AT]), U(ints[ROWS_AT])
    placed_task = ints[PLACED] // machines
    placed_machine = ints[PLACED] - placed_task * machines
    unplaced = ints[U(ints[UNPLACED_AT] + placed_task)]
    target = U(0)
    for machine in range(machines):
        first, stop = U(ints[rows + U(machine)]), U(ints[rows + U(machine) + ONE])
        ints[rows + U(machine)] = target
        pair = placed_task * machines + machine
        if machine == placed_machine:
            free_cores = floats[U(ints[FREE_CORES_AT] + machine)]
            free_memory = floats[U(ints[FREE_MEMORY_AT] + machine)]
            free_cores_shown = free_cores / floats[CORE_UNIT]
            free_memory_shown = free_memory / floats[MEMORY_UNIT]
            for row in range(first, stop):
                task = U(ints[pairs + row] // machines)
                if ints[pairs + row] == pair:
                    if unplaced == 0:
                        continue
                    candidates[row, 5] = unplaced
                if floats[cores + task] <= free_cores and floats[memory + task] <= free_memory:
                    if target != row:
                        _move_row(ints, candidates, row, target)
                    candidates[target, 0] = free_cores_shown
                    candidates[target, 1] = free_memory_shown
                    target += ONE
        else:
            row = first
            while row < stop and ints[pairs + row] != pair:
                row += ONE
            if row < stop and unplaced > 0:
                candidates[row, 5] = unplaced
                row = stop
            if target == first:
                target = row
            else:
                for moved in range(first, row):
                    _move_row(ints, candidates, moved, target)
                    target += ONE
            for moved in range(row + ONE, stop):
                _move_row(ints, candidates, moved, target)
                target += ONE
    ints[rows + U(machines)] = target
    ints[PAIRS] = target


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Every fitting pair, machine-major, task-minor; then the wait row where there is one."""
    if ints[FRESH] == 1 and ints[PLACED] >= 0 and ints[EXTENDED] == 0:
        _update_rows(ints, floats, candidates)
    else:
        _write_rows(ints, floats, candidates)
    ints[FRESH] = 1
    n = ints[PAIRS]
    for i in range(n):
        feasible[i] = True
    if ints[EXTENDED] == 1:
        for i in range(n):
            task = U(ints[U(ints[PAIRS_AT] + i)] // ints[MACHINES])
            total = ints[U(ints[TOTAL_AT]) + task]
            running = ints[U(ints[RUNNING_AT]) + task]
            candidates[i, 7] = total
            candidates[i, 8] = running
            candidates[i, 9] = total - running - ints[U(ints[UNPLACED_AT]) + task]
    total_cores = 0.0
    total_memory = 0.0
    for machine in range(ints[MACHINES]):
        total_cores += floats[U(ints[FREE_CORES_AT] + machine)]
        total_memory += floats[U(ints[FREE_MEMORY_AT] + machine)]
    context[0] = total_cores / floats[CORE_UNIT]
    context[1] = total_memory / floats[MEMORY_UNIT]
    context[2] = ints[WAITING]
    context[3] = ints[UNPLACED_TOTAL]
    context[4] = ints[RUNNING_TOTAL]
    context[5] = floats[LARGEST_CORES]
    context[6] = floats[LARGEST_MEMORY]
    if ints[WAIT_ROW] == 1 and n > 0:
        candidates[n, :] = 0.0
        candidates[n, 6] = -1.0
        feasible[n] = ints[RUNNING_TASKS] > 0 or ints[ARRIVED] < ints[TASKS]
        n += 1
    return n
