"""Layout of the memory of a `deferrable` episode: the position of every value in the flat arrays.

    ints    header | cores duration earliest latest submitted (J each, per job)
            | jobs by submission (J) | start (J, -1 before it) | running, startable, future (J each)
            | capacity (T) | freed (T + D + LOOKAHEAD + 1)
    floats  header

There are J jobs, numbered by their earliest start (in the order of their draws among equals), T
slots, and D is the longest duration. All amounts are whole numbers of cores or slots. `freed[t]` is
the number of cores of running jobs that end at slot t, so that no search is needed when a slot
begins.

    running     jobs that run, in the order of their starts
    startable   submitted jobs with earliest <= t <= latest that have not started, ascending
    future      submitted jobs with earliest > t, ascending (hence ordered by earliest start)

A job is in at most one of the three lists. The rows of an observation are these lists one after the
other, and a last row that closes the slot.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# header of ints; place 0 is FRESH
JOBS: Final = 1
HORIZON: Final = 2  # slots of an episode
SLOT: Final = 3  # the current slot; HORIZON when the episode is over
SUBMITTED: Final = 4  # number of jobs submitted so far
RUNNING_JOBS: Final = 5  # length of each list
STARTABLE_JOBS: Final = 6
FUTURE_JOBS: Final = 7
RUNNING_CORES: Final = 8
STARTABLE_CORES: Final = 9  # sums over the lists
STARTABLE_SLOTS: Final = 10
FUTURE_CORES: Final = 11
FUTURE_SLOTS: Final = 12
MOVED: Final = 13  # index among the startable jobs of the one started since the observation
OBJECTIVE: Final = 14  # which reward term is the reward
STARTED: Final = 15
EXPIRED: Final = 16
WORK: Final = 17  # core-slots of the jobs started
DELAY: Final = 18  # slots of delay of the jobs started
VIOLATION: Final = 19  # core-slots above the capacity
USED: Final = 20  # core-slots occupied within the horizon
# beginnings of the blocks of ints
CORES_AT, DURATION_AT, EARLIEST_AT, LATEST_AT, SUBMITTED_AT, BY_SUBMISSION_AT = range(21, 27)
START_AT, RUNNING_AT, STARTABLE_AT, FUTURE_AT, CAPACITY_AT, FREED_AT = range(27, 33)
INT_HEADER: Final = 33

# header of floats; place 0 is TIME
SLOT_S: Final = 1  # seconds of a slot
DELAY_WEIGHT: Final = 2
VIOLATION_WEIGHT: Final = 3
SHOWN_DELAY_WEIGHT: Final = 4  # cost of a slot of delay in the objective
UPPER_BOUND: Final = 5
FLOAT_HEADER: Final = 6

# values of ints[MOVED] that are no index
NOTHING: Final = -1  # the rows of the last observation are still valid
EVERYTHING: Final = -2  # all rows must be rewritten

GRID: Final = 2  # objectives from here on are those of a grid, whose jobs do not expire
LAGS: Final = 5  # number of earlier capacities in an observation
LOOKAHEAD: Final = 8  # number of later slots whose freed cores are in an observation

# Computed indices are unsigned. numba then leaves out the test for a negative index.
U: Final[Any] = np.uint64
ONE: Final[Any] = np.uint64(1)


def block(ints: NDArray[np.int64], at: int, length: int) -> NDArray[np.int64]:
    """Return the block of ints that begins at ints[at]."""
    return ints[ints[at] : ints[at] + length]
