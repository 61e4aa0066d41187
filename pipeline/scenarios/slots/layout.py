"""Layout of the memory of a `slots` episode: the position of every value in the two flat arrays.

    ints    header | arrive, length, cpu, memory, enter, finish (J each, per job)
            | running (J) | backlog, a ring (B) | job, offset, shown (M each, per slot)
    floats  header | grid (H rows of: free cpu, free memory, jobs) | 1 / length (J)

Row h of the grid is time step t + h. Row, slot and job numbers start at 0; -1 means "none".
"""

from typing import Any, Final

import numpy as np

# The header of ints; 0 is FRESH.
JOBS: Final = 1
QUEUE: Final = 2  # largest number of visible jobs, M
BACKLOG: Final = 3  # largest number of jobs behind them, B
HORIZON: Final = 4
SLOTS: Final = 5  # slots of each resource
COMPAT: Final = 6
OBJECTIVE: Final = 7  # which reward term is the reward
LAST_STEP: Final = 8  # no job arrives later
MAX_STEPS: Final = 9
NOW: Final = 10  # number of time steps so far
NEXT: Final = 11  # the next job to arrive
VISIBLE: Final = 12  # jobs in the queue
WAITING: Final = 13  # jobs in the backlog
HEAD: Final = 14  # index of the first job in the ring
IN_MACHINE: Final = 15  # length of the running list
DROPPED: Final = 16
ACTIONS: Final = 17
LAST_ARRIVAL: Final = 18  # time step
CHANGES: Final = 19  # steps since the last observation
PLACED: Final = 20  # job placed by the last step; -1 if time passed
SHOWN_WAITING: Final = 21  # size of the backlog in the image
SHOWN_GAP: Final = 22  # brightness of the time column in the image
LEFT_OUT: Final = 23
TIES: Final = 24  # 1 if ties go to the larger demand, 0 if they go to the lowest slot
# Beginnings of the blocks of ints.
ARRIVE_AT, LENGTH_AT, CPU_AT, MEMORY_AT, ENTER_AT, FINISH_AT, RUNNING_AT, RING_AT = range(25, 33)
JOB_AT, OFFSET_AT = range(33, 35)
SHOWN_AT: Final = 35  # the job that the last observation showed in the slot
INVERSE_AT: Final = 36  # in floats
FORESIGHT: Final = 37  # 1 if rows show the delays that their choice causes
INT_HEADER: Final = 38

# The header of floats; 0 is TIME.
STEP_S: Final = 1
OPEN_RATE: Final = 2  # sum of 1 / length over the jobs in the system
CARRIED_RATE: Final = 3  # that sum at time step 0, paid with the first move on
CARRIED_JOBS: Final = 4  # number of jobs at time step 0, paid with the first move on
USED: Final = 5  # sum over time steps of the mean fraction in use
REPORT_LOAD: Final = 6  # sum over time steps of queue fraction + machine fraction
EXPECTED_LOAD: Final = 7
OFFERED_LOAD: Final = 8
CAPACITY: Final = 9  # slots of the resources that any job needs
GRID: Final = 10
COLUMNS: Final = 3  # of the grid: free cpu, free memory, jobs

# Computed indices are unsigned. numba then leaves out the test for a negative index.
U: Final[Any] = np.uint64
ONE: Final[Any] = np.uint64(1)
FIRST_CELL: Final[Any] = np.uint64(GRID)  # of the grid
ROW_CELLS: Final[Any] = np.uint64(COLUMNS)  # cells of a row of the grid
