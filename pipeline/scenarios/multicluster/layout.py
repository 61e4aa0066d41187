"""Layout of the memory of a `multicluster` episode: the position of every value in the arrays.

    ints    header | per application: given, then state (J each) | needs of all runs (R)
            | per cluster: given, then state (K each) | queues (2K) | history (K * LAGS)
            | ending (S * K) | completing (2S) | due (2S) | with foresight, last steps (P + 1)
    floats  header | deadline (J) | rows (J * SHOWN)

There are J applications, numbered in the order of their arrival, at most P in the pool, K clusters,
R runs, and S slots in a calendar. The events of step t are in slot t modulo S, and nothing is
planned more than S - 1 steps ahead. A list of applications is a pair (first, last), -1 if the list
is empty, with its members connected by `link`. An application is in one list at most, because its
run either waits in a cluster, or is about to complete, or is not due yet.
"""

from typing import Final

LAGS: Final = 100  # steps of occupation that an observation shows
BINS: Final = 10  # of the distribution of a streaming application's needs
SHOWN: Final = 15  # features of an application that never change: the paper's 14, and n

# header of ints; place 0 is FRESH
CLUSTERS: Final = 1
APPLICATIONS: Final = 2
SLOTS: Final = 3
LIMIT: Final = 4  # the episode is truncated at this step
OBJECTIVE: Final = 5  # which reward term is the reward
OWN: Final = 6  # 1 if an application's own misses count among those after its deployment
NOW: Final = 7  # the step, as a whole number
ARRIVED: Final = 8  # number of applications that have arrived: 0..ARRIVED-1
POOL: Final = 9  # number of applications in the pool
DEPLOYED: Final = 10
FINISHED: Final = 11
MISSES: Final = 12
RUNS_COMPLETED: Final = 13
CRITICAL_COMPLETED: Final = 14
BUSY_STEPS: Final = 15  # executor-steps occupied so far
SLOT: Final = 16  # NOW modulo SLOTS
LAG: Final = 17  # NOW modulo LAGS
# beginnings of the blocks of ints; per application, given
ARRIVAL_AT: Final = 18
EXECUTION_AT: Final = 19  # s, steps of one task
PERIOD_AT: Final = 20  # steps between two batches
RUNS_AT: Final = 21  # number of runs
FIRST_NEED_AT: Final = 22  # index of its first run among the needs
# per application, state
POOLED_AT: Final = 23  # the applications in the pool, ascending
ORDER_AT: Final = 24  # applications in the order of their deployment
ENDED_AT: Final = 25  # applications in the order of their end
CLUSTER_AT: Final = 26
DEPLOYED_AT: Final = 27  # step of its deployment, -1 before it
DUE_AT: Final = 28  # due time of the current run: the arrival, later that of the batch
DONE_AT: Final = 29  # number of completed runs
MISSED_AT: Final = 30  # number of runs completed after the deadline
ACTUAL_AT: Final = 31  # sum of the actual run times of completed runs
LEFT_AT: Final = 32  # tasks of the current run that still have to be launched
LINK_AT: Final = 33
MISSES_BEFORE_AT: Final = 34  # misses of the system up to its deployment
MISSES_UNTIL_AT: Final = 35  # misses of the system up to its end, -1 before its end
# other blocks
NEEDS_AT: Final = 36  # tasks of every run
CAPABILITY_AT: Final = 37  # executors of every cluster
FREE_AT: Final = 38
QUEUED_AT: Final = 39  # tasks that wait in a cluster
CLUSTER_MISSES_AT: Final = 40
OCCUPIED_AT: Final = 41  # sum of the last LAGS occupations
QUEUES_AT: Final = 42  # runs that still have tasks to launch, a list per cluster
HISTORY_AT: Final = 43  # occupied executors after the launches of step t, at t modulo LAGS
ENDING_AT: Final = 44  # executors that become free, per slot and cluster
COMPLETING_AT: Final = 45  # runs whose last tasks end, a list per slot
DUE_LISTS_AT: Final = 46  # runs that are queued, a list per slot
# beginnings of the blocks of floats
DEADLINE_AT: Final = 47  # steps that a run may take; infinite without a deadline
ROWS_AT: Final = 48  # features of an application as candidates show them
LAST_STEPS_AT: Final = 49  # with FORESIGHT, scratch: applications of the pool by their last step
FORESIGHT: Final = 50  # 1 if rows have the columns of `foresight`
INT_HEADER: Final = 51

# header of floats; place 0 is TIME
MISS_WEIGHT: Final = 1
LATER_WEIGHT: Final = 2
DELAY_WEIGHT: Final = 3
CARRIED: Final = 4  # steps before the first decision
LOWER_BOUND: Final = 5  # of 1 / Eval
MIDDLE_EXECUTION: Final = 6  # middle of the range of s, in the unit of rows
FLOAT_HEADER: Final = 7
