"""Drawn futures of a `multicluster` episode, for policies that look ahead.

    known     applications that have arrived, and the needs of batches that have been queued
    drawn     everything else: later arrivals, their applications, and the needs of later batches

A future is drawn from the settings of the recipe, the distributions that the scenario itself draws
from. It never reads what an episode has not shown yet. Needs of later batches are drawn from the
profile that an application shows. The time to the next arrival is drawn given the time since the
last one.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.multicluster import layout as m
from hindcast.pipeline.scenarios.multicluster.bounds import most_pooled
from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig
from hindcast.pipeline.scenarios.multicluster.instances import (
    STREAMING,
    Applications,
    draw_applications,
    draw_intervals,
    draw_needs,
    rows_of,
)

_INTERVALS: Final = 4096  # to draw the next arrival from


@dataclass(frozen=True)
class DrawnFuture:
    """A future of all episodes of one instance, see `hindcast.pipeline.simulation.scenario.Future`.

    J applications have R runs in the instance, and the applications of the future have Q runs.

    Attributes:
        room: Integers that a copy needs behind those of the instance: for the larger pool, whose
            block is the last one, and for the needs of the later applications.
        float_room: Floats that a copy needs behind those of the instance: none.
        capacity: Largest number of candidates in a copy.
        later: J applications, of which the last ones replace those that have not arrived.
        rows: Features of the later applications, (J, SHOWN).
        first_need: Index of the first need of each later application among their needs, (J,).
        events: Later applications with which an arrival event begins, ascending.
        intervals: Drawn steps between arrival events.
        needs: Drawn needs of all runs of the instance, (R,).
        application: Application of every run of the instance, (R,).
        number: Number of every run within its application, (R,).
        streams: Whether the need of a run is not known in advance, (R,).
    """

    room: int
    capacity: int
    later: Applications
    rows: NDArray[np.float64]
    first_need: NDArray[np.int64]
    events: NDArray[np.int64]
    intervals: NDArray[np.int64]
    needs: NDArray[np.int64]
    application: NDArray[np.int64]
    number: NDArray[np.int64]
    streams: NDArray[np.bool_]
    float_room: int = 0

    def replace(self, ints: NDArray[np.int64], floats: NDArray[np.float64]) -> None:
        """Replace the parts of a copy that its episode has not shown yet.

        The copy has `room` more ints. The same moment of an episode always gets the same future.
        """
        self._replace_needs(ints)
        arrived, count = int(ints[m.ARRIVED]), int(ints[m.APPLICATIONS])
        if arrived < count:
            self._replace_applications(ints, floats, arrived, count)

    def _replace_needs(self, ints: NDArray[np.int64]) -> None:
        """Replace the needs of runs that have not been queued, of applications that are there."""
        count = int(ints[m.APPLICATIONS])

        def column(place: int) -> NDArray[np.int64]:
            return ints[ints[place] : ints[place] + count]

        waits = (column(m.DEPLOYED_AT) < 0) | (column(m.DUE_AT) > ints[m.NOW])
        runs_shown = column(m.DONE_AT) + np.where(waits, 0, 1)
        unseen = (
            self.streams
            & (self.number >= runs_shown[self.application])
            & (self.application < ints[m.ARRIVED])
        )
        needs = ints[ints[m.NEEDS_AT] : ints[m.NEEDS_AT] + len(self.needs)]
        needs[unseen] = self.needs[unseen]

    def _replace_applications(
        self, ints: NDArray[np.int64], floats: NDArray[np.float64], arrived: int, count: int
    ) -> None:
        """Replace the applications that have not arrived, from the beginning of an event on."""
        first = int(self.events[np.searchsorted(self.events, arrived, side="right") - 1])
        drawn = slice(first, first + count - arrived)
        last = ints[ints[m.ARRIVAL_AT] + arrived - 1]
        longer = self.intervals[self.intervals > ints[m.NOW] - last]
        following = ints[m.NOW] + 1
        if len(longer):
            following = last + longer[arrived % len(longer)]
        a = self.later
        arrival = a.arrival[drawn] - a.arrival[first] + following
        behind = len(ints) - len(a.needs)
        for place, values in (
            (m.ARRIVAL_AT, arrival),
            (m.DUE_AT, arrival),
            (m.EXECUTION_AT, a.execution[drawn]),
            (m.PERIOD_AT, a.period[drawn]),
            (m.RUNS_AT, a.runs[drawn]),
            (m.FIRST_NEED_AT, behind - ints[m.NEEDS_AT] + self.first_need[drawn]),
        ):
            ints[ints[place] + arrived : ints[place] + count] = values
        ints[behind:] = a.needs
        at = ints[m.DEADLINE_AT]
        floats[at + arrived : at + count] = a.deadline[drawn]
        at = ints[m.ROWS_AT]
        floats[at + arrived * m.SHOWN : at + count * m.SHOWN] = self.rows[drawn].ravel()


def draw_future(
    config: MulticlusterConfig, a: Applications, rng: np.random.Generator
) -> DrawnFuture:
    """Return a drawn future of the instance that has these applications.

    Of the applications, only what an episode shows on their arrival is used, and their number.
    """
    later, streaming = draw_applications(config, rng), a.category == STREAMING
    clusters, pooled = len(config.clusters), most_pooled(a) + most_pooled(later) + 1
    application = np.repeat(np.arange(len(a.runs)), a.runs)
    first = np.cumsum(a.runs) - a.runs
    return DrawnFuture(
        room=len(later.needs) + pooled + 1,
        capacity=pooled * clusters,
        later=later,
        rows=rows_of(later),
        first_need=np.cumsum(later.runs) - later.runs,
        events=np.flatnonzero(np.diff(later.arrival, prepend=-1) > 0),
        intervals=draw_intervals(config, _INTERVALS, rng),
        needs=draw_needs(a.tasks, streaming, a.profile, a.runs, rng),
        application=application,
        number=np.arange(len(application)) - first[application],
        streams=streaming[application],
    )
