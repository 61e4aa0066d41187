"""Observations of `binpack`: one row per fitting pair, rewritten or updated in place."""

from numba import types

from hindcast.pipeline.scenarios.binpack import layout as m
from hindcast.pipeline.scenarios.binpack.features import MOMENT, PAPER_COLUMNS, ROW
from hindcast.pipeline.scenarios.binpack.layout import ONE, U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, OBSERVE, ROWS, compiled


@compiled(types.void(INTS, FLOATS, ROWS))
def _write_rows(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Write a candidate for every pair of a machine and a waiting task that fits on it.

    Also writes the pairs and the first row of every machine to `ints`.
    """
    machines = ints[m.MACHINES]
    cores, memory, duration = U(ints[m.CORES_AT]), U(ints[m.MEMORY_AT]), U(ints[m.DURATION_AT])
    # "Shown" are amounts in the unit of the features, the others in that of the layout.
    shown_cores, shown_memory = U(ints[m.SHOWN_CORES_AT]), U(ints[m.SHOWN_MEMORY_AT])
    unplaced, pairs, rows = U(ints[m.UNPLACED_AT]), U(ints[m.PAIRS_AT]), U(ints[m.ROWS_AT])
    first_waiting = U(ints[m.WAITING_AT])
    last_waiting = first_waiting + U(ints[m.WAITING])
    n = U(0)
    for machine in range(machines):
        ints[rows + U(machine)] = n
        free_cores = floats[U(ints[m.FREE_CORES_AT] + machine)]
        free_memory = floats[U(ints[m.FREE_MEMORY_AT] + machine)]
        free_cores_shown = free_cores / floats[m.CORE_UNIT]
        free_memory_shown = free_memory / floats[m.MEMORY_UNIT]
        for i in range(first_waiting, last_waiting):
            task = U(ints[i])
            if floats[cores + task] <= free_cores and floats[memory + task] <= free_memory:
                candidates[n, ROW.free_cores] = free_cores_shown
                candidates[n, ROW.free_memory] = free_memory_shown
                candidates[n, ROW.cores] = floats[shown_cores + task]
                candidates[n, ROW.memory] = floats[shown_memory + task]
                candidates[n, ROW.duration_s] = floats[duration + task]
                candidates[n, ROW.unplaced] = ints[unplaced + task]
                candidates[n, ROW.machine] = machine
                ints[pairs + n] = ints[i] * machines + machine
                n += ONE
    ints[rows + U(machines)] = n
    ints[m.PAIRS] = n


@compiled(types.void(INTS, ROWS, types.uint64, types.uint64))
def _move_row(ints, candidates, source, target):  # type: ignore[no-untyped-def]
    """Copy a row and its pair to an earlier row."""
    for column in range(PAPER_COLUMNS):
        candidates[target, column] = candidates[source, column]
    pairs = U(ints[m.PAIRS_AT])
    ints[pairs + target] = ints[pairs + source]


@compiled(types.void(INTS, FLOATS, ROWS))
def _update_rows(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Update the rows after one placement at the same tick.

    Only the rows of the placed machine (free resources, fits) and of the placed task (unplaced)
    can change.
    """
    machines = ints[m.MACHINES]
    cores, memory = U(ints[m.CORES_AT]), U(ints[m.MEMORY_AT])
    pairs, rows = U(ints[m.PAIRS_AT]), U(ints[m.ROWS_AT])
    placed_task = ints[m.PLACED] // machines
    placed_machine = ints[m.PLACED] - placed_task * machines
    unplaced = ints[U(ints[m.UNPLACED_AT] + placed_task)]
    target = U(0)
    for machine in range(machines):
        first, stop = U(ints[rows + U(machine)]), U(ints[rows + U(machine) + ONE])
        ints[rows + U(machine)] = target
        pair = placed_task * machines + machine
        if machine == placed_machine:
            free_cores = floats[U(ints[m.FREE_CORES_AT] + machine)]
            free_memory = floats[U(ints[m.FREE_MEMORY_AT] + machine)]
            free_cores_shown = free_cores / floats[m.CORE_UNIT]
            free_memory_shown = free_memory / floats[m.MEMORY_UNIT]
            for row in range(first, stop):
                task = U(ints[pairs + row] // machines)
                if ints[pairs + row] == pair:
                    if unplaced == 0:
                        continue
                    candidates[row, ROW.unplaced] = unplaced
                if floats[cores + task] <= free_cores and floats[memory + task] <= free_memory:
                    if target != row:
                        _move_row(ints, candidates, row, target)
                    candidates[target, ROW.free_cores] = free_cores_shown
                    candidates[target, ROW.free_memory] = free_memory_shown
                    target += ONE
        else:
            row = first
            while row < stop and ints[pairs + row] != pair:
                row += ONE
            if row < stop and unplaced > 0:
                candidates[row, ROW.unplaced] = unplaced
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
    ints[m.PAIRS] = target


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write every fitting pair, by machine, then by task, and the wait row if there is one."""
    if ints[k.FRESH] == 1 and ints[m.PLACED] >= 0 and ints[m.EXTENDED] == 0:
        _update_rows(ints, floats, candidates)
    else:
        _write_rows(ints, floats, candidates)
    ints[k.FRESH] = 1
    n = ints[m.PAIRS]
    for i in range(n):
        feasible[i] = True
    if ints[m.EXTENDED] == 1:
        for i in range(n):
            task = U(ints[U(ints[m.PAIRS_AT] + i)] // ints[m.MACHINES])
            total = ints[U(ints[m.TOTAL_AT]) + task]
            running = ints[U(ints[m.RUNNING_AT]) + task]
            candidates[i, ROW.total] = total
            candidates[i, ROW.running] = running
            candidates[i, ROW.finished] = total - running - ints[U(ints[m.UNPLACED_AT]) + task]
    total_cores = 0.0
    total_memory = 0.0
    for machine in range(ints[m.MACHINES]):
        total_cores += floats[U(ints[m.FREE_CORES_AT] + machine)]
        total_memory += floats[U(ints[m.FREE_MEMORY_AT] + machine)]
    context[MOMENT.free_cores_total] = total_cores / floats[m.CORE_UNIT]
    context[MOMENT.free_memory_total] = total_memory / floats[m.MEMORY_UNIT]
    context[MOMENT.waiting_tasks] = ints[m.WAITING]
    context[MOMENT.unplaced_total] = ints[m.UNPLACED_TOTAL]
    context[MOMENT.running_total] = ints[m.RUNNING_TOTAL]
    context[MOMENT.machine_cores] = floats[m.LARGEST_CORES]
    context[MOMENT.machine_memory] = floats[m.LARGEST_MEMORY]
    if ints[m.WAIT_ROW] == 1 and n > 0:
        candidates[n, :] = 0.0
        candidates[n, ROW.machine] = -1.0
        feasible[n] = ints[m.RUNNING_TASKS] > 0 or ints[m.ARRIVED] < ints[m.TASKS]
        n += 1
    return n
