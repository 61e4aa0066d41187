"""Observations of `thermal`: one row per server, on the state before the decision."""

from numba import types

from hindcast.pipeline.scenarios.thermal import layout as m
from hindcast.pipeline.scenarios.thermal.features import MOMENT, ROW
from hindcast.pipeline.scenarios.thermal.layout import U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, OBSERVE, ROWS, compiled


@compiled(types.void(INTS, FLOATS, ROWS))
def _write_places(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Write the columns that never change."""
    for server in range(ints[m.SERVERS]):
        candidates[server, ROW.server] = server
        candidates[server, ROW.capacity] = ints[m.CAPACITY]
        candidates[server, ROW.x] = floats[ints[m.X_AT] + server]
        candidates[server, ROW.y] = floats[ints[m.Y_AT] + server]
        candidates[server, ROW.distance] = floats[ints[m.DISTANCE_AT] + server]


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write the job, the total heat and a row per server; after the end no server is feasible."""
    if ints[k.FRESH] == 0:
        _write_places(ints, floats, candidates)
        ints[k.FRESH] = 1
    now = ints[m.NOW]
    resources = process = 0
    deadline = -1
    context[MOMENT.deadline] = context[MOMENT.slack] = 0.0
    if now < ints[m.JOBS]:
        resources = ints[U(ints[m.RESOURCES_AT] + now)]
        process = ints[U(ints[m.PROCESS_AT] + now)]
        deadline = ints[U(ints[m.DEADLINE_AT] + now)]
        context[MOMENT.deadline] = deadline
        context[MOMENT.slack] = deadline - now - process + 1
    context[MOMENT.submit] = now
    context[MOMENT.process] = process
    context[MOMENT.resources] = resources
    context[MOMENT.total_heat] = floats[m.HEAT]
    context[MOMENT.alpha] = floats[m.ALPHA]
    context[MOMENT.beta] = floats[m.BETA]
    mask = U(ints[m.MASK])
    calendar = U(ints[m.CALENDAR_AT])
    inefficiencies, energies = U(ints[m.INEFFICIENCY_AT]), U(ints[m.ENERGY_AT])
    more_inefficient = inefficiencies + U(resources)
    # Energy rises equally from every usage above 0. From 0, the server is also switched on.
    last = energies + U(ints[m.CAPACITY])
    rise_on = resources * (floats[last] - floats[last - U(1)])
    rise_off = floats[energies + U(resources)] - floats[energies]
    capacity = float(ints[m.CAPACITY])
    per_step = 1.0 / max(1, process)
    lasting = 1.0 / (1.0 - floats[m.DECAY])  # heat that a unit adds to all later total heats
    for server in range(U(ints[m.SERVERS])):
        start = ints[U(ints[m.START_AT]) + server]
        full_heat = floats[U(ints[m.FULL_HEAT_AT]) + server]
        used_now = U(ints[calendar + (U(now) & mask)])
        used_sum = off = 0
        inefficiency = 0.0
        for step in range(U(start), U(start + process)):
            used = ints[calendar + (step & mask)]
            used_sum += used
            off += used == 0
            level = U(used)
            inefficiency += floats[more_inefficient + level] - floats[inefficiencies + level]
        candidates[server, ROW.usage] = used_now / capacity
        candidates[server, ROW.energy] = floats[energies + used_now]
        candidates[server, ROW.heat] = floats[energies + used_now] * full_heat
        candidates[server, ROW.delay] = start - now
        candidates[server, ROW.ahead] = ints[U(ints[m.AHEAD_AT]) + server] / capacity
        candidates[server, ROW.window_usage] = used_sum / capacity * per_step
        candidates[server, ROW.window_off] = off * per_step
        candidates[server, ROW.window_inefficiency] = inefficiency
        energy = (process - off) * rise_on + off * rise_off
        candidates[server, ROW.window_heat] = energy * full_heat * lasting
        candidates[server, ROW.now_inefficiency] = candidates[server, ROW.now_heat] = 0.0
        if start == now and process > 0:
            candidates[server, ROW.now_inefficiency] = (
                floats[more_inefficient + used_now] - floats[inefficiencies + used_now]
            )
            candidates[server, ROW.now_heat] = (rise_on if used_now > 0 else rise_off) * full_heat
        feasible[server] = start + process - 1 <= deadline
        calendar += mask + U(1)
    return ints[m.SERVERS]
