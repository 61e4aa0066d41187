"""Drawn futures of a `slots` episode, for policies that look ahead.

    known     jobs that have arrived, and the time step after which no job arrives
    drawn     the jobs of all later time steps, from the distributions of the recipe's settings

A future never reads what an episode has not shown yet. Arrivals of different time steps are
independent, so the part of a drawn sequence after the present step is a future of any moment.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.slots import layout as m
from hindcast.pipeline.scenarios.slots.instances import Jobs

_INT_BLOCKS = 7  # with one entry per job


@dataclass(frozen=True)
class DrawnFuture:
    """A future of all episodes of one instance, see `hindcast.pipeline.simulation.scenario.Future`.

    Attributes:
        jobs: A drawn sequence. Its jobs after the present time step replace those to come.
        known: Number of jobs of the instance.
        capacity: Largest number of candidates in a copy.
    """

    jobs: Jobs
    known: int
    capacity: int

    @property
    def room(self) -> int:
        """Integers that a copy needs behind those of the instance, for longer blocks of jobs."""
        return _INT_BLOCKS * self.float_room

    @property
    def float_room(self) -> int:
        """Floats that a copy needs behind those of the instance."""
        return self.known + len(self.jobs.arrive)

    def replace(self, ints: NDArray[np.int64], floats: NDArray[np.float64]) -> None:
        """Replace the jobs that have not arrived in a copy of an episode.

        The jobs of a copy may be more than those of the instance, so that the blocks with one entry
        per job move behind the other memory.
        """
        arrived, jobs = int(ints[m.NEXT]), self.jobs
        first = int(np.searchsorted(jobs.arrive, ints[m.NOW], side="right"))
        number = arrived + len(jobs.arrive) - first
        at = len(ints) - self.room
        for place, later in (
            (m.ARRIVE_AT, jobs.arrive[first:]),
            (m.LENGTH_AT, jobs.length[first:]),
            (m.CPU_AT, jobs.cpu[first:]),
            (m.MEMORY_AT, jobs.memory[first:]),
            (m.ENTER_AT, -1),
            (m.FINISH_AT, -1),
            (m.RUNNING_AT, 0),
        ):
            before = ints[place]
            ints[at : at + arrived] = ints[before : before + arrived]
            ints[at + arrived : at + number] = later
            ints[place] = at
            at += number
        before, at = ints[m.INVERSE_AT], len(floats) - self.float_room
        floats[at : at + arrived] = floats[before : before + arrived]
        floats[at + arrived : at + number] = 1.0 / jobs.length[first:]
        ints[m.INVERSE_AT] = at
        ints[m.JOBS] = number
