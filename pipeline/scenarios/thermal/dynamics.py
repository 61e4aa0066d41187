"""Compiled transition of `thermal`; the problem is told in pipeline.scenarios.thermal."""

from numba import types

from pipeline.scenarios.thermal.layout import (
    AHEAD_AT,
    ALPHA,
    BETA,
    BOOKED_HEAT,
    BOOKED_NOW,
    BOOKED_REJECTED,
    CALENDAR_AT,
    CAPACITY,
    CHOSEN,
    DEADLINE_AT,
    DECAY,
    DISTANCE_AT,
    END,
    ENERGY_AT,
    FULL_HEAT_AT,
    HEAT,
    INEFFICIENCY_AT,
    JOBS,
    LATE,
    MASK,
    NOW,
    OBJECTIVE,
    OTHERS,
    PASSED,
    PEAK,
    PLACED,
    PROCESS_AT,
    REJECTED,
    RESOURCES_AT,
    SERVERS,
    START_AT,
    STEPS,
    SUMS,
    WAITED,
    U,
)
from pipeline.simulation.kernel import (
    ELAPSED,
    FLOATS,
    INFEASIBLE,
    INTS,
    OUTCOME,
    REWARD,
    RUNNING,
    STEP,
    TERMINATED,
    TERMS,
    TIME,
    compiled,
)


@compiled(types.boolean(INTS))
def plan(ints):  # type: ignore[no-untyped-def]
    """Fill the earliest start of the job that is due on every server; whether any is in time."""
    now = U(ints[NOW])
    process = U(ints[U(ints[PROCESS_AT]) + now])
    room = ints[CAPACITY] - ints[U(ints[RESOURCES_AT]) + now]
    latest = U(ints[U(ints[DEADLINE_AT]) + now])
    mask = U(ints[MASK])
    calendar = U(ints[CALENDAR_AT])
    starts = U(ints[START_AT])
    feasible = False
    for server in range(U(ints[SERVERS])):
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
    """Let the present step pass: sum its inefficiency, energy and heat, clear its slots."""
    slot = U(ints[CALENDAR_AT]) + (U(ints[NOW]) & U(ints[MASK]))
    length = U(ints[MASK]) + U(1)
    inefficiency = energy = heat = 0.0
    for server in range(U(ints[SERVERS])):
        used = ints[slot]
        ints[slot] = 0
        ints[U(ints[AHEAD_AT]) + server] -= used
        drawn = floats[U(ints[ENERGY_AT]) + U(used)]
        inefficiency += floats[U(ints[INEFFICIENCY_AT]) + U(used)]
        energy += drawn
        heat += drawn * floats[U(ints[FULL_HEAT_AT]) + server]
        slot += length
    total = heat + floats[DECAY] * floats[HEAT]
    floats[HEAT] = total
    floats[PASSED] += inefficiency
    floats[PASSED + 1] += total
    floats[PASSED + 2] += energy
    floats[PEAK] = max(floats[PEAK], total)
    ints[NOW] += 1


@compiled(types.int64(INTS, FLOATS))
def advance(ints, floats):  # type: ignore[no-untyped-def]
    """Let steps pass, and reject jobs, until a job has a server in time or the episode is over."""
    while ints[NOW] < ints[JOBS]:
        if plan(ints):
            floats[TIME] = ints[NOW]
            return RUNNING
        ints[REJECTED] += 1
        _pass_step(ints, floats)
    while ints[NOW] < ints[STEPS] or ints[NOW] < ints[END]:
        _pass_step(ints, floats)
    floats[TIME] = ints[NOW]
    for server in range(ints[SERVERS]):
        ints[ints[START_AT] + server] = ints[NOW]
    return TERMINATED


@compiled(types.void(INTS, FLOATS, types.uint64))
def _book_choice(ints, floats, chosen):  # type: ignore[no-untyped-def]
    """Sum usage, efficiency and distance of the chosen server and of the others."""
    slot = U(ints[CALENDAR_AT]) + (U(ints[NOW]) & U(ints[MASK]))
    for server in range(U(ints[SERVERS])):
        used = ints[slot]
        at = U(CHOSEN) if server == chosen else U(OTHERS)
        floats[at] += used / ints[CAPACITY]
        floats[at + U(1)] += 1.0 - floats[U(ints[INEFFICIENCY_AT]) + U(used)]
        floats[at + U(2)] += floats[U(ints[DISTANCE_AT]) + server]
        slot += U(ints[MASK]) + U(1)


@compiled(types.void(INTS, types.uint64))
def _place(ints, server):  # type: ignore[no-untyped-def]
    """Enter the job that is due into the server's calendar, at its earliest start."""
    now = U(ints[NOW])
    process = U(ints[U(ints[PROCESS_AT]) + now])
    resources = ints[U(ints[RESOURCES_AT]) + now]
    start = U(ints[U(ints[START_AT]) + server])
    mask = U(ints[MASK])
    calendar = U(ints[CALENDAR_AT]) + server * (mask + U(1))
    for step in range(start, start + process):
        ints[calendar + (step & mask)] += resources
    end = int(start + process)
    ints[U(ints[AHEAD_AT]) + server] += resources * int(process)
    ints[END] = max(ints[END], end)
    ints[PLACED] += 1
    ints[WAITED] += int(start - now)
    ints[LATE] += end - 1 > ints[U(ints[DEADLINE_AT]) + now]


@compiled(types.void(INTS, FLOATS, FLOATS))
def _book(ints, floats, booked):  # type: ignore[no-untyped-def]
    """Fill booked with everything since the last time, and begin anew."""
    passed = float(ints[NOW] - ints[BOOKED_NOW])
    inefficiency, heat, energy = floats[PASSED], floats[PASSED + 1], floats[PASSED + 2]
    efficiency = ints[SERVERS] * passed - inefficiency
    change = floats[BOOKED_HEAT] - floats[HEAT]
    booked[ELAPSED] = passed
    booked[TERMS] = 0.0 - floats[ALPHA] * inefficiency - floats[BETA] * heat
    booked[TERMS + 1] = floats[ALPHA] * efficiency + floats[BETA] * change
    booked[TERMS + 2] = inefficiency
    booked[TERMS + 3] = efficiency
    booked[TERMS + 4] = heat
    booked[TERMS + 5] = change
    booked[TERMS + 6] = energy
    booked[TERMS + 7] = ints[REJECTED] - ints[BOOKED_REJECTED]
    booked[REWARD] = booked[TERMS + ints[OBJECTIVE]]
    ints[BOOKED_NOW] = ints[NOW]
    ints[BOOKED_REJECTED] = ints[REJECTED]
    floats[BOOKED_HEAT] = floats[HEAT]
    for i in range(3):
        floats[SUMS + i] += floats[PASSED + i]
        floats[PASSED + i] = 0.0


@compiled(STEP)
def step(ints, floats, choice, booked):  # type: ignore[no-untyped-def]
    """Give the job that is due to server `choice`; steps pass until the next decision."""
    now = ints[NOW]
    if choice < 0 or choice >= ints[SERVERS] or now >= ints[JOBS]:
        return INFEASIBLE
    finish = ints[ints[START_AT] + choice] + ints[ints[PROCESS_AT] + now] - 1
    if finish > ints[ints[DEADLINE_AT] + now]:
        return INFEASIBLE
    _book_choice(ints, floats, U(choice))
    _place(ints, U(choice))
    _pass_step(ints, floats)
    status = advance(ints, floats)
    _book(ints, floats, booked)
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec, over the steps that have passed."""
    inefficiency = floats[SUMS] + floats[PASSED]
    heat = floats[SUMS + 1] + floats[PASSED + 1]
    steps = float(max(1, ints[NOW]))
    placed = float(max(1, ints[PLACED]))
    outcomes[0] = (0.0 - floats[ALPHA] * inefficiency - floats[BETA] * heat) / steps
    outcomes[1] = inefficiency / steps
    outcomes[2] = heat / steps
    outcomes[3] = floats[PEAK]
    outcomes[4] = floats[SUMS + 2] + floats[PASSED + 2]
    outcomes[5] = ints[REJECTED]
    outcomes[6] = ints[LATE]
    outcomes[7] = ints[PLACED]
    outcomes[8] = ints[WAITED] / placed
    others = placed * max(1, ints[SERVERS] - 1)
    for i in range(3):
        outcomes[9 + 2 * i] = floats[CHOSEN + i] / placed
        outcomes[10 + 2 * i] = floats[OTHERS + i] / others
