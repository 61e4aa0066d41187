"""Layout of the memory of a `queue` episode: the position of every value in the two flat arrays.

    ints    header | per job (N each): submit, processors, run, requested, user, key, queue, logged
            start, start, end, stamp | waiting (N) | by_request (N) | by_end (N) | last hour (H)
            | per user (U each): last run, the run before it, processors, waiting jobs, stamp
            | with `run_times`: row (N), places of the contexts (4 N)
    floats  header | per job (N each): ln processors, ln requested, ln area, ln waited, weight
            | per user (U each): ln predicted, ln waiting jobs | per key (K): ln similar
            | profile: end, free, ln of the time until then (N + 1 each)
            | with `run_times`: contexts, per job (N each): version, ln weight, ln expected

With several resources K or pools M, the header of ints is longer, and behind the other blocks are

    ints    per pool (M K each): capacity, free, spare | (M each): shadow, closed, awake, rows,
            waiting, groups | asks (N (K + 1)) | per job (N each): placement, equivalent, pool, wide
            | rows (N) | per user (U M K): held | profile: free (N + M) K
    floats  the profile has N + M places

The N jobs are numbered 0 .. N-1: first those that run at time 0, then the carried jobs and the jobs
of the window, which are counted, then the follow-on jobs. Within each group they are in order of
arrival. Times are whole seconds since the submission of the window's first job.

`waiting` holds the waiting jobs in order of arrival. `by_request` holds the running jobs in the
order of their estimated ends, first end first; `by_end` in the order of their ends, last end first.
A key is a triple of user, processors and requested time. User and key are -1 if the user is
unknown.
"""

from typing import Final

# The header of ints; 0 is FRESH.
JOBS: Final = 1
PROCESSORS: Final = 2
FREE: Final = 3  # below 0 if the log exceeds the machine
NOW: Final = 4
NEXT: Final = 5  # the next job to arrive
WAITING: Final = 6  # number of waiting jobs
RUNNING: Final = 7  # number of running jobs
FIRST_COUNTED: Final = 8
COUNTED: Final = 9  # number of counted jobs, J
COUNTED_STARTED: Final = 10
WAITED: Final = 11  # job-seconds that counted jobs have waited
OBJECTIVE: Final = 12  # which reward term is the reward
CLOSED: Final = 13  # 1 while a job holds the reservation
SHADOW: Final = 14  # time of the reservation
SPARE: Final = 15  # processors that stay free at that time
VISIBLE: Final = 16  # largest number of waiting jobs in an observation
ALLOW_WAIT: Final = 17
RESERVE: Final = 18
STARTS: Final = 19
CARRIED: Final = 20
WAITING_AREA: Final = 21  # requested processor-seconds of the waiting jobs
CLOCK: Final = 22  # local time at time 0, in seconds since some Monday, 00:00
HOUR_FIRST: Final = 23  # arrivals of the last hour: from this place
HOUR_LAST: Final = 24  # to before this place
DECISIONS: Final = 25
FIRST_SUBMIT: Final = 26  # of all jobs
HOURS: Final = 27  # length of the block of the last hour, H
TOLD: Final = 28  # time for which the clock features hold
OBSERVATIONS: Final = 29
MAY_WAIT: Final = 30  # 1 once a rule over the memory has waited without ALLOW_WAIT
# Beginnings of the blocks of ints, per job.
SUBMIT_AT, CPU_AT, RUN_AT, REQUESTED_AT, USER_AT, KEY_AT, QUEUE_AT = range(31, 38)
LOGGED_AT: Final = 38  # start in the log, NEVER if it is unknown
START_AT: Final = 39  # start in the simulation, NEVER before it
END_AT: Final = 40
STAMP_AT: Final = 41  # time at which `ln waited` was computed
WAITING_AT: Final = 42
BY_REQUEST_AT: Final = 43
BY_END_AT: Final = 44
HOUR_AT: Final = 45  # submissions of the hour before time 0, and of the jobs that arrive
# Per user.
LAST_AT, BEFORE_AT, HELD_AT, USER_WAITING_AT, USER_STAMP_AT = range(46, 51)
# Beginnings of the blocks of floats.
LN_CPU_AT, LN_REQUESTED_AT, LN_AREA_AT, LN_WAITED_AT, WEIGHT_AT = range(51, 56)
LN_PREDICTED_AT, LN_USER_WAITING_AT, LN_SIMILAR_AT = range(56, 59)
PROFILE_END_AT, PROFILE_FREE_AT, PROFILE_LN_AT = range(59, 62)
# Of learned run times, see hindcast.pipeline.scenarios.queue.run_times.
RUN_TIMES: Final = 62  # 1 if run times are learned
ROW_AT: Final = 63  # number of the job in the log, by which runs of one second are ordered
PLACES_AT: Final = 64  # places of its contexts
SUMS_AT: Final = 65  # the contexts
VERSION_AT, LN_WEIGHT_AT, LN_EXPECTED_AT = range(66, 69)
INT_HEADER: Final = 69
# More header of several resources, see hindcast.pipeline.scenarios.queue.several.
RESOURCES: Final = 69  # K
FIRST_TYPE: Final = 70
LAST_TYPE: Final = 71
POOLS: Final = 72  # M
HAS_POOLS: Final = 73  # 1 if rows have the columns of pools
ROWS: Final = 74  # number of jobs in `rows`
# Per pool and resource, from 0 on for pool 0.
CAPACITY_AT, FREE_AT, SPARE_AT = range(75, 78)
# Per pool.
SHADOW_AT, CLOSED_AT, AWAKE_AT, IN_ROWS_AT, SEEN_AT, GROUPS_AT = range(78, 84)
ASK_AT: Final = 84  # K + 1 numbers of a job, see hindcast.pipeline.scenarios.queue.fitting
PLACED_AT: Final = 85  # placement of a job that has started
EQUIVALENT_AT: Final = 86  # equivalent processors of a job in thousandths
POOL_AT: Final = 87
WIDE_AT: Final = 88  # 1 for a wide job
ROWS_AT: Final = 89  # the jobs of an observation
HOLDS_AT: Final = 90  # per user, pool and resource: what its jobs hold
ASKED_AT: Final = 91  # per resource: requested seconds times asks of the waiting jobs
PROFILE_AT: Final = 92  # free amounts of the groups of the profile
# A rule over the memory may choose the placement of the job that it starts.
WISHING: Final = 93  # the job, -1 for none
WISHED: Final = 94
SEVERAL_HEADER: Final = 95

# The header of floats; 0 is TIME.
SLOWDOWN: Final = 1  # sum of the term `bounded_slowdown` over all steps
FIRST_SLOWDOWN: Final = 2  # term of the time before the first decision, paid with the first step
FIRST_WAIT: Final = 3  # the same for the term `wait_h`
FIRST_ELAPSED: Final = 4  # seconds before the first decision
SLOWDOWN_BOUND: Final = 5
WAIT_BOUND: Final = 6
DAY_SIN: Final = 7
DAY_COS: Final = 8
WEEK_SIN: Final = 9
WEEK_COS: Final = 10
REMAINDER: Final = 11  # mean requested seconds left of the running jobs
FLOAT_HEADER: Final = 12

NEVER: Final = -(1 << 62)  # no time
LATER: Final = 1 << 62  # after every time
TAU: Final = 10  # s, the least run time in a bounded slowdown
