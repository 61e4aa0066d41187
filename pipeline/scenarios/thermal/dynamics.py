"""Compiled transition of `thermal`. The problem is described in pipeline.scenarios.thermal."""

from numba import types

from hindcast.pipeline.scenarios.thermal import layout as m
from hindcast.pipeline.scenarios.thermal.features import OUT, TERM
from hindcast.pipeline.scenarios.thermal.layout import U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, OUTCOME, STEP, compiled


@compiled(types.boolean(INTS))
def plan(ints):  # type: ignore[no-untyped-def]
    """Fill the earliest start of the due job on every server; return whether any is in time."""
    now = U(ints[m.NOW])
    process = U(ints[U(ints[m.PROCESS_AT]) + now])
    room = ints[m.CAPACITY] - ints[U(ints[m.RESOURCES_AT]) + now]
    latest = U(ints[U(ints[m.DEADLINE_AT]) + now])
    mask = U(ints[m.MASK])
    calendar = U(ints[m.CALENDAR_AT])
    starts = U(ints[m.START_AT])
    feasible = False
    for server in range(U(ints[m.SERVERS])):
        step = now
        fitting = U(0)
        while fitting < process:
            fits = ints[calendar + (step & mask)] <= room
            fitting = (fitting + U(1)) * U(fits)
            step += U(1)
        ints[starts + server] = step - process
        feasible |= step <= latest + U(1)
        calendar += mask + U(1)
    return feasible


@compiled(types.void(INTS, FLOATS))
def _pass_step(ints, floats):  # type: ignore[no-untyped-def]
    """Let the present step pass: add its inefficiency, energy and heat, and clear its slots."""
    slot = U(ints[m.CALENDAR_AT]) + (U(ints[m.NOW]) & U(ints[m.MASK]))
    length = U(ints[m.MASK]) + U(1)
    inefficiency = energy = heat = 0.0
    for server in range(U(ints[m.SERVERS])):
        used = ints[slot]
        ints[slot] = 0
        ints[U(ints[m.AHEAD_AT]) + server] -= used
        drawn = floats[U(ints[m.ENERGY_AT]) + U(used)]
        inefficiency += floats[U(ints[m.INEFFICIENCY_AT]) + U(used)]
        energy += drawn
        heat += drawn * floats[U(ints[m.FULL_HEAT_AT]) + server]
        slot += length
    total = heat + floats[m.DECAY] * floats[m.HEAT]
    floats[m.HEAT] = total
    floats[m.PASSED] += inefficiency
    floats[m.PASSED + 1] += total
    floats[m.PASSED + 2] += energy
    floats[m.PEAK] = max(floats[m.PEAK], total)
    ints[m.NOW] += 1


@compiled(types.int64(INTS, FLOATS))
def advance(ints, floats):  # type: ignore[no-untyped-def]
    """Let steps pass, rejecting jobs, until a job has a feasible server or the episode is over."""
    while ints[m.NOW] < ints[m.JOBS]:
        if plan(ints):
            floats[k.TIME] = ints[m.NOW]
            return k.RUNNING
        ints[m.REJECTED] += 1
        _pass_step(ints, floats)
    while ints[m.NOW] < ints[m.STEPS] or ints[m.NOW] < ints[m.END]:
        _pass_step(ints, floats)
    floats[k.TIME] = ints[m.NOW]
    for server in range(ints[m.SERVERS]):
        ints[ints[m.START_AT] + server] = ints[m.NOW]
    return k.TERMINATED


@compiled(types.void(INTS, FLOATS, types.uint64))
def _book_choice(ints, floats, chosen):  # type: ignore[no-untyped-def]
    """Add the usage, efficiency and distance of the chosen server and of the others."""
    slot = U(ints[m.CALENDAR_AT]) + (U(ints[m.NOW]) & U(ints[m.MASK]))
    for server in range(U(ints[m.SERVERS])):
        used = ints[slot]
        at = U(m.CHOSEN) if server == chosen else U(m.OTHERS)
        floats[at] += used / ints[m.CAPACITY]
        floats[at + U(1)] += 1.0 - floats[U(ints[m.INEFFICIENCY_AT]) + U(used)]
        floats[at + U(2)] += floats[U(ints[m.DISTANCE_AT]) + server]
        slot += U(ints[m.MASK]) + U(1)


@compiled(types.void(INTS, types.uint64))
def _place(ints, server):  # type: ignore[no-untyped-def]
    """Enter the due job into the server's calendar, at its earliest start."""
    now = U(ints[m.NOW])
    process = U(ints[U(ints[m.PROCESS_AT]) + now])
    resources = ints[U(ints[m.RESOURCES_AT]) + now]
    start = U(ints[U(ints[m.START_AT]) + server])
    mask = U(ints[m.MASK])
    calendar = U(ints[m.CALENDAR_AT]) + server * (mask + U(1))
    for step in range(start, start + process):
        ints[calendar + (step & mask)] += resources
    end = int(start + process)
    ints[U(ints[m.AHEAD_AT]) + server] += resources * int(process)
    ints[m.END] = max(ints[m.END], end)
    ints[m.PLACED] += 1
    ints[m.WAITED] += int(start - now)
    ints[m.LATE] += end - 1 > ints[U(ints[m.DEADLINE_AT]) + now]


@compiled(types.void(INTS, FLOATS, FLOATS))
def _book(ints, floats, step_outputs):  # type: ignore[no-untyped-def]
    """Fill step_outputs with the sums since the last call, and reset these sums."""
    passed = float(ints[m.NOW] - ints[m.BOOKED_NOW])
    inefficiency, heat, energy = floats[m.PASSED], floats[m.PASSED + 1], floats[m.PASSED + 2]
    efficiency = ints[m.SERVERS] * passed - inefficiency
    change = floats[m.BOOKED_HEAT] - floats[m.HEAT]
    step_outputs[k.ELAPSED] = passed
    step_outputs[k.TERMS + TERM.level] = (
        0.0 - floats[m.ALPHA] * inefficiency - floats[m.BETA] * heat
    )
    step_outputs[k.TERMS + TERM.difference] = floats[m.ALPHA] * efficiency + floats[m.BETA] * change
    step_outputs[k.TERMS + TERM.inefficiency] = inefficiency
    step_outputs[k.TERMS + TERM.efficiency] = efficiency
    step_outputs[k.TERMS + TERM.heat] = heat
    step_outputs[k.TERMS + TERM.heat_change] = change
    step_outputs[k.TERMS + TERM.energy] = energy
    step_outputs[k.TERMS + TERM.rejected] = ints[m.REJECTED] - ints[m.BOOKED_REJECTED]
    step_outputs[k.REWARD] = step_outputs[k.TERMS + ints[m.OBJECTIVE]]
    ints[m.BOOKED_NOW] = ints[m.NOW]
    ints[m.BOOKED_REJECTED] = ints[m.REJECTED]
    floats[m.BOOKED_HEAT] = floats[m.HEAT]
    for i in range(3):
        floats[m.SUMS + i] += floats[m.PASSED + i]
        floats[m.PASSED + i] = 0.0


@compiled(STEP)
def step(ints, floats, choice, step_outputs):  # type: ignore[no-untyped-def]
    """Give the due job to server `choice`; steps pass until the next decision."""
    now = ints[m.NOW]
    if choice < 0 or choice >= ints[m.SERVERS] or now >= ints[m.JOBS]:
        return k.INFEASIBLE
    finish = ints[ints[m.START_AT] + choice] + ints[ints[m.PROCESS_AT] + now] - 1
    if finish > ints[ints[m.DEADLINE_AT] + now]:
        return k.INFEASIBLE
    _book_choice(ints, floats, U(choice))
    _place(ints, U(choice))
    _pass_step(ints, floats)
    status = advance(ints, floats)
    _book(ints, floats, step_outputs)
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec, over the steps that have passed."""
    inefficiency = floats[m.SUMS] + floats[m.PASSED]
    heat = floats[m.SUMS + 1] + floats[m.PASSED + 1]
    steps = float(max(1, ints[m.NOW]))
    placed = float(max(1, ints[m.PLACED]))
    outcomes[OUT.level_per_step] = (
        0.0 - floats[m.ALPHA] * inefficiency - floats[m.BETA] * heat
    ) / steps
    outcomes[OUT.inefficiency_per_step] = inefficiency / steps
    outcomes[OUT.mean_heat] = heat / steps
    outcomes[OUT.peak_heat] = floats[m.PEAK]
    outcomes[OUT.energy] = floats[m.SUMS + 2] + floats[m.PASSED + 2]
    outcomes[OUT.rejected] = ints[m.REJECTED]
    outcomes[OUT.late] = ints[m.LATE]
    outcomes[OUT.placed] = ints[m.PLACED]
    outcomes[OUT.mean_wait] = ints[m.WAITED] / placed
    others = placed * max(1, ints[m.SERVERS] - 1)
    for i in range(3):
        outcomes[OUT.chosen_usage + 2 * i] = floats[m.CHOSEN + i] / placed
        outcomes[OUT.others_usage + 2 * i] = floats[m.OTHERS + i] / others
