"""Layout of the memory of an `rlscheduler` episode: the position of every value in both arrays.

    ints    header | per job (N each): submit, processors, run, requested, start
            | waiting (N) | by_end (N) | by_request (N) | shown (128)
    floats  header | published features that do not change (6 per job)

Jobs 0 .. N-1 are consecutive jobs of a log, in order of submission. Times are seconds on the clock
of the log. `waiting` holds the waiting jobs in order of arrival. `by_end` and `by_request` hold the
running jobs in order of their ends and of their requested ends, the first end first. `shown` holds
the jobs that the rows of the last observation show.
"""

from typing import Final

# The header of ints; 0 is FRESH.
JOBS: Final = 1
PROCESSORS: Final = 2
FREE: Final = 3
NOW: Final = 4
NEXT: Final = 5  # the next job to arrive
WAITING: Final = 6  # number of waiting jobs
RUNNING: Final = 7  # number of running jobs
BACKFILL: Final = 8
STARTED: Final = 9
WAITED: Final = 10  # job-seconds that started jobs have waited
WORK: Final = 11  # processor-seconds of the started jobs
LAST_START: Final = 12
LAST_END: Final = 13
OBJECTIVE: Final = 14
PUBLISHED: Final = 15  # 1 if an observation has the 128 published rows
SHOWN: Final = 16  # number of rows of the last observation that show a job
DECISIONS: Final = 17
# Beginnings of the blocks of ints.
SUBMIT_AT, CPU_AT, RUN_AT, REQUESTED_AT, START_AT = range(18, 23)
WAITING_AT, BY_END_AT, BY_REQUEST_AT, SHOWN_AT = range(23, 27)
INT_HEADER: Final = 27

# The header of floats; 0 is TIME.
SLOWDOWN: Final = 1  # sum of the bounded slowdowns of the started jobs
FLOAT_HEADER: Final = 2

FIXED: Final = 6  # features of a job that do not change
ROWS_SHOWN: Final = 128  # rows of the published observation
NOT_STARTED: Final = -(1 << 62)
TAU_S: Final = 10  # least run time in a bounded slowdown
