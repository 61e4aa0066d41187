"""Names of the features, reward terms and outcomes of `rlscheduler`, and their indices in arrays.

The first eight columns of a row are those of the published observation.
"""

from typing import Final

import numpy as np

from hindcast.flows.papers.rlscheduler.scenario.config import RLSchedulerConfig
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec, columns

OBJECTIVES: Final = ("bounded_slowdown", "wait")
TERMS: Final = ("bounded_slowdown", "wait_h")

LONGEST_WAIT_S: Final = 43_200  # waits are shown relative to it
ROOM: Final = 1e-5  # a known value stays this far below 1

CONTEXT: Final = (
    Feature("free", "share", 0, 1, "processors that are free", scale=0.3),
    Feature("waiting", "jobs", 0, np.inf, "number of waiting jobs", heavy_tailed=True, scale=10.0),
    Feature("running", "jobs", 0, np.inf, "number of running jobs", heavy_tailed=True, scale=10.0),
)

CANDIDATES: Final = (
    Feature("wait", "12 h", 0, 1, "time that the job has waited, below 1"),
    Feature("requested", "longest run", -1, 1,
            "requested time over the longest run time of the log, below 1"),
    Feature("processors", "share", 0, 1, "processors of the job, below 1", scale=0.3),
    Feature("memory", "1", 0, 1,
            "requested memory over the largest request of the log, below 1; 1 if unknown"),
    Feature("user", "1", 0, 1, "number of the user over the largest one, below 1; 1 if unknown"),
    Feature("group", "1", 0, 1, "number of the group over the largest one, below 1; 1 if unknown"),
    Feature("executable", "1", 0, 1,
            "number of the executable over the largest one, below 1; 1 if unknown"),
    Feature("can_start", "flag", 0, 1, "close to 1 if the job's processors are free, else to 0"),
    Feature("submit_s", "s", 0, np.inf, "submission on the clock of the log", identifier=True),
    Feature("requested_s", "s", -1, np.inf, "requested time; -1 if unknown", identifier=True),
    Feature("cpu", "processors", 0, np.inf, "processors of the job", identifier=True),
    Feature("waited_s", "s", 0, np.inf, "time that the job has waited", identifier=True),
)  # fmt: skip

OUTCOMES: Final = (
    Outcome("average_bounded_slowdown", "1",
            "max(1, (wait + run) / max(run, 10 s)), mean over the jobs"),
    Outcome("mean_wait_s", "s", "wait since the submission, mean over the jobs"),
    Outcome("makespan_s", "s", "last end of a job since the first submission"),
    Outcome("last_start_s", "s", "last start of a job since the first submission"),
    Outcome("utilisation", "fraction",
            "processor-seconds of the jobs over those offered until the last START", "higher"),
    Outcome("decisions", "decisions", "jobs that were chosen; the others were backfilled",
            "neither"),
)  # fmt: skip

MOMENT: Final = columns(CONTEXT)
ROW: Final = columns(CANDIDATES)
TERM: Final = columns(TERMS)
OUT: Final = columns(OUTCOMES)


def spec(config: RLSchedulerConfig, objective: str) -> Spec:
    """Return the names of the observation, the reward terms and the outcomes."""
    return Spec(
        scenario="rlscheduler",
        objective=objective,
        context=CONTEXT,
        candidates=CANDIDATES,
        reward_terms=TERMS,
        outcomes=OUTCOMES,
    )
