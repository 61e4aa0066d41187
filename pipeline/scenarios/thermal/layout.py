"""Layout of the memory of a `thermal` episode: the position of every value in the two arrays.

    ints    header | resources, process, deadline (J each, per job)
            | calendar (S*L) | start (S) | ahead (S)
    floats  header | inefficiency, energy (R+1 each, by used resources)
            | x, y, distance, heat at full power (S each)

Job j is submitted at step j. The calendar of a server is a ring of L steps, where L is a power of
two that exceeds the longest plan. Its slot `step % L` holds the resources in use at that step, and
is cleared when the step has passed. `start` is the earliest start of the due job. `ahead` is the
number of resource-steps that a server has been given for the present step and later ones.
"""

from typing import Any, Final

import numpy as np

# header of ints; place 0 is FRESH
SERVERS: Final = 1
JOBS: Final = 2
STEPS: Final = 3  # length of the episode, unless jobs still run then
CAPACITY: Final = 4
MASK: Final = 5  # L - 1
OBJECTIVE: Final = 6  # which reward term is the reward
NOW: Final = 7  # the step, which is also the number of the due job
END: Final = 8  # first step after the last planned one
REJECTED: Final = 9
LATE: Final = 10
PLACED: Final = 11
WAITED: Final = 12  # steps between submission and start, over all placed jobs
BOOKED_NOW: Final = 13  # step up to which step outputs have been filled
BOOKED_REJECTED: Final = 14  # rejected jobs up to then
# beginnings of the blocks of ints
RESOURCES_AT, PROCESS_AT, DEADLINE_AT, CALENDAR_AT, START_AT, AHEAD_AT = range(15, 21)
# beginnings of the blocks of floats
INEFFICIENCY_AT, ENERGY_AT, X_AT, Y_AT, DISTANCE_AT, FULL_HEAT_AT = range(21, 27)
INT_HEADER: Final = 27

# header of floats; place 0 is TIME
ALPHA: Final = 1
BETA: Final = 2
DECAY: Final = 3
HEAT: Final = 4  # total heat at the end of the last step
BOOKED_HEAT: Final = 5  # total heat when step outputs were last filled
PASSED: Final = 6  # 6..8: inefficiency, heat, energy since step outputs were last filled
SUMS: Final = 9  # 9..11: the same over the whole episode
PEAK: Final = 12
CHOSEN: Final = 13  # 13..15: usage, efficiency, distance of the chosen, summed over decisions
OTHERS: Final = 16  # 16..18: the same over the servers not chosen
FLOAT_HEADER: Final = 19

# Computed indices are unsigned. numba then leaves out the test for a negative index.
U: Final[Any] = np.uint64
