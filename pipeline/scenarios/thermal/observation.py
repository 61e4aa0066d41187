"""Observations of `thermal`: one row per server, on the state before the decision."""

from numba import types

from pipeline.scenarios.thermal.layout import (
    AHEAD_AT,
    ALPHA,
    BETA,
    CALENDAR_AT,
    CAPACITY,
    DEADLINE_AT,
    DECAY,
    DISTANCE_AT,
    ENERGY_AT,
    FULL_HEAT_AT,
    HEAT,
    INEFFICIENCY_AT,
    JOBS,
    MASK,
    NOW,
    PROCESS_AT,
    RESOURCES_AT,
    SERVERS,
    START_AT,
    X_AT,
    Y_AT,
    U,
)
from pipeline.simulation.kernel import FLOATS, FRESH, INTS, OBSERVE, ROWS, compiled


@compiled(types.void(INTS, FLOATS, ROWS))
def _write_places(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Write the columns that never change."""
    for server in range(ints[SERVERS]):
        candidates[server, 0] = server
        candidates[server, 1] = ints[CAPACITY]
        candidates[server, 2] = floats[ints[X_AT] + server]
        candidates[server, 3] = floats[ints[Y_AT] + server]
        candidates[server, 4] = floats[ints[DISTANCE_AT] + server]


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Fill the job, the total heat and a row per server; after the end no server is feasible."""
    if ints[FRESH] == 0:
        _write_places(ints, floats, candidates)
        ints[FRESH] = 1
    now = ints[NOW]
    resources = process = 0
    deadline = -1
    context[3] = context[4] = 0.0
    if now < ints[JOBS]:
        resources = ints[U(ints[RESOURCES_AT] + now)]
        process = ints[U(ints[PROCESS_AT] + now)]
        deadline = ints[U(ints[DEADLINE_AT] + now)]
        context[3] = deadline
        context[4] = deadline - now - process + 1
    context[0] = now
    context[1] = process
    context[2] = resources
    context[5] = floats[HEAT]
    context[6] = floats[ALPHA]
    context[7] = floats[BETA]
    mask = U(ints[MASK])
    calendar = U(ints[CALENDAR_AT])
    inefficiencies, energies = U(ints[INEFFICIENCY_AT]), U(ints[ENERGY_AT])
    more_inefficient = inefficiencies + U(resources)
    # energy rises alike from every usage but none, where the server is switched on
    last = energies + U(ints[CAPACITY])
    rise_on = resources * (floats[last] - floats[last - U(1)])
    rise_off = floats[energies + U(resources)] - floats[energies]
    capacity = float(ints[CAPACITY])
    per_step = 1.0 / max(1, process)
    lasting = 1.0 / (1.0 - floats[DECAY])  # what a unit of heat adds to all total heats to come
    for server in range(U(ints[SERVERS])):
        start = ints[U(ints[START_AT]) + server]
        full_heat = floats[U(ints[FULL_HEAT_AT]) + server]
        used_now = U(ints[calendar + (U(now) & mask)])
        used_sum = off = 0
        inefficiency = 0.0
        for step in range(U(start), U(start + process)):
            used = ints[calendar + (step & mask)]
            used_sum += used
            off += used == 0
            level = U(used)
            inefficiency += floats[more_inefficient + level] - floats[inefficiencies + level]
        candidates[server, 5] = used_now / capacity
        candidates[server, 6] = floats[energies + used_now]
        candidates[server, 7] = floats[energies + used_now] * full_heat
        candidates[server, 8] = start - now
        candidates[server, 9] = ints[U(ints[AHEAD_AT]) + server] / capacity
        candidates[server, 10] = used_sum / capacity * per_step
        candidates[server, 11] = off * per_step
        candidates[server, 12] = inefficiency
        energy = (process - off) * rise_on + off * rise_off
        candidates[server, 13] = energy * full_heat * lasting
        candidates[server, 14] = candidates[server, 15] = 0.0
        if start == now and process > 0:
            candidates[server, 14] = (
                floats[more_inefficient + used_now] - floats[inefficiencies + used_now]
            )
            candidates[server, 15] = (rise_on if used_now > 0 else rise_off) * full_heat
        feasible[server] = start + process - 1 <= deadline
        calendar += mask + U(1)
    return ints[SERVERS]
