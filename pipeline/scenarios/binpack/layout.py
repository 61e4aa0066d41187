"""Layout of the memory of a `binpack` episode: the position of every value in the flat arrays.

    ints    header | seen ticks total unplaced running first_start finish (T each, per task)
            | waiting, oldest, newest, heap (T each) | pairs (M*T)
            | first rows (M+1) | start order, machine, next (H each)
    floats  header | cores memory duration, cores and memory as features (T each)
            | free cores, free memory (M each) | end (H)

Requests and free resources are float64. Outside `compat` they hold whole milli-cores and 1e-9ths of
memory, so that sums are exact. In `compat` they hold cores and fractions, and drift as those of the
reference do. floats[CORE_UNIT] and floats[MEMORY_UNIT] convert them to features.

A running instance is a node (end, start order, machine). All instances of a task run equally long,
so the instances of one task end in the order of their starts. Each task therefore has a linked list
from its `oldest` to its `newest` node, and a heap of the running tasks orders the oldest nodes by
(end, start order). `next` also links the unused nodes.
"""

from typing import Any, Final

import numpy as np

MILLI_CORES: Final = 1e3
NANO_MEMORY: Final = 1e9

# header of ints; place 0 is FRESH
MACHINES: Final = 1
TASKS: Final = 2
EXTENDED: Final = 3  # 1: total, running and finished instances are features too
WAIT_ROW: Final = 4  # 1: a last candidate lets time pass
OBJECTIVE: Final = 5  # which reward term is the reward
ARRIVED: Final = 6  # number of tasks that have been seen: tasks 0..ARRIVED-1
WAITING: Final = 7  # length of the waiting list
RUNNING_TASKS: Final = 8  # length of the heap
OPEN: Final = 9  # number of arrived, unfinished tasks
STARTS: Final = 10  # placements so far
PAIRS: Final = 11  # candidates of the last observation, without the wait row
PLACED: Final = 12  # the pair placed since the last observation; -1: time has passed
UNPLACED_TOTAL: Final = 13
RUNNING_TOTAL: Final = 14
UNUSED: Final = 15  # first unused node
# beginnings of the blocks of ints
SEEN_AT, TICKS_AT, TOTAL_AT, UNPLACED_AT, RUNNING_AT, FIRST_START_AT, FINISH_AT = range(16, 23)
WAITING_AT, OLDEST_AT, NEWEST_AT, HEAP_AT = range(23, 27)
PAIRS_AT: Final = 27  # task * machines + machine of every row
ROWS_AT: Final = 28  # first row of every machine, and their number
START_AT: Final = 29
MACHINE_AT: Final = 30
NEXT_AT: Final = 31
# beginnings of the blocks of floats
CORES_AT, MEMORY_AT, DURATION_AT, SHOWN_CORES_AT, SHOWN_MEMORY_AT, FREE_CORES_AT = range(32, 38)
FREE_MEMORY_AT, END_AT = range(38, 40)
INT_HEADER: Final = 40

# header of floats; place 0 is TIME
CORE_UNIT: Final = 1
MEMORY_UNIT: Final = 2
LARGEST_CORES: Final = 3  # of one machine, as a feature
LARGEST_MEMORY: Final = 4
OPEN_RATE: Final = 5  # sum of 1 / duration over open tasks
CARRIED: Final = 6  # 6..8: ticks, task-ticks and slowdown before the first decision
LOWER_BOUND: Final = 9
WORK_BOUND: Final = 10
CORE_USE: Final = 11  # core-seconds of the window / cores of the cluster
MEMORY_USE: Final = 12
FLOAT_HEADER: Final = 13

# Computed indices are unsigned. numba then leaves out the test for a negative index, which more
# than halves the time of an observation.
U: Final[Any] = np.uint64
ONE: Final[Any] = np.uint64(1)
