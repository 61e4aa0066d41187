"""Reserved cores beside those on demand, and the bill.

Reserved cores are paid for all slots of the episode, used or not. A job that starts takes reserved
cores if all of its cores are free there, and cores on demand else; it never moves. Work that may
pause is allotted slot by slot. Where jobs choose their starts, cores are allotted when the start
has come, so its money is paid with a later decision. A reserved core is free in the slot in which a
job ends.

Source: Hanafy et al., ASPLOS 2024, whose simulator frees a core a tick of 5 s later.
"""

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.instances import Jobs
from hindcast.pipeline.simulation.kernel import Floats, Ints, Mask, compiled


@compiled()
def _in_use(start: Ints, duration: Ints, cores: Ints, on_reserved: Mask, slot: int) -> int:
    """Return the reserved cores that jobs have in a slot. All arrays are (J,)."""
    used = 0
    for job in range(len(start)):
        if on_reserved[job] and start[job] <= slot < start[job] + duration[job]:
            used += cores[job]
    return used


@compiled(forceinline=True)
def _flags_at(floats: Floats) -> int:
    """Return where the flags of jobs on reserved cores begin."""
    return int(floats[f.BEFORE_AT] + floats[f.DAY_SLOTS])


@compiled()
def free_reserved(ints: Ints, floats: Floats, slot: int) -> int:
    """Return the reserved cores that are free in a slot."""
    jobs = ints[m.JOBS]
    start = ints[ints[m.START_AT] : ints[m.START_AT] + jobs]
    duration = ints[ints[m.DURATION_AT] : ints[m.DURATION_AT] + jobs]
    cores = ints[ints[m.CORES_AT] : ints[m.CORES_AT] + jobs]
    at = _flags_at(floats)
    on_reserved = floats[at : at + jobs] == 1.0
    return int(floats[f.RESERVED]) - _in_use(start, duration, cores, on_reserved, slot)


@compiled()
def pay(ints: Ints, floats: Floats, job: int, slot: int, hours: float) -> None:
    """Allot cores to a job that starts in a slot, and book the bill of its hours."""
    cores, flag = ints[ints[m.CORES_AT] + job], _flags_at(floats) + job
    floats[flag] = 0.0
    if cores <= free_reserved(ints, floats, slot):
        floats[flag] = 1.0
        left = max((ints[m.HORIZON] - slot) * floats[f.SLOT_H], 0.0)
        floats[f.RESERVED_HOURS] += cores * min(hours, left)
    else:
        floats[f.MONEY] += floats[f.ON_DEMAND_PRICE] * cores * hours


@compiled()
def settle(ints: Ints, floats: Floats, end: int) -> None:
    """Allot cores to the chosen starts before a slot, in the order of the slots and decisions."""
    for slot in range(int(floats[f.SETTLED]), end):
        for job in ints[ints[m.RUNNING_AT] : ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS]]:
            if ints[ints[m.START_AT] + job] == slot:
                pay(ints, floats, job, slot, floats[f.FLOAT_HEADER + job])
    floats[f.SETTLED] = max(floats[f.SETTLED], float(end))


def bills(
    config: DeferrableConfig, jobs: Jobs, run: NDArray[np.float64], episode_h: float
) -> tuple[float, float]:
    """Return the bill of starting at once jobs of some hours, (J,), and one that none is below.

    The second has the reserved hours, and the work that is beyond them.
    """
    core_h, fits = run * jobs.cores, jobs.cores <= config.reserved
    on_reserved = np.zeros(len(run), np.bool_)
    for job, slot in enumerate(jobs.earliest):
        used = _in_use(jobs.earliest, jobs.duration, jobs.cores, on_reserved, slot)
        on_reserved[job] = used + jobs.cores[job] <= config.reserved
    room = config.reserved * (episode_h + run.max(initial=0.0))
    least = core_h[~fits].sum() + max(core_h[fits].sum() - room, 0.0)
    paid = config.reserved_rate * config.reserved * episode_h
    found = config.on_demand_price * (paid + np.array([core_h[~on_reserved].sum(), least]))
    return float(found[0]), float(found[1])
