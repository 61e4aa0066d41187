"""`deferrable`: start jobs that can wait on the capacity that on-demand work leaves free.

Time goes in slots. A job needs `c` cores for `d` slots without interruption, may start at any
slot from `e` to `l`, and is known from `g <= e` on. The capacity `C_t` is what on-demand work
leaves free in slot t; it is known up to t and may fall below what runs already. In every slot:

    submit what has g <= t; end what has start + d <= t; see C_t; drop what has l < t (it expires)
    decide: start a startable job that fits C_t, as often as wanted, time frozen; then close
    violation v_t = max(0, running cores - C_t); the next slot begins

    utilisation   r = c d                                              paid at the start of a job
    delay         r = -w1 (t - e)                                      same
    violation     r = -w2 v_t                                          at the close
    revenue       r = utilisation + delay + violation                  the published reward

Candidates are the jobs that run, can start or will be able to start, and a last row that closes
the slot; only startable jobs that fit and the close row are feasible. A slot in which nothing can
be started is shown too: every slot has exactly one close. The published action, a score per
startable job, is pipeline.scenarios.deferrable.slotwise_action.

Source: Dong, Zhu, Shan et al., "An Advanced Reinforcement Learning Framework for Online Scheduling
of Deferrable Workloads in Cloud Computing" (OSDEC).

Differences from the paper, which publishes neither code nor its processed data:
- One job is started per decision; the published action is a whole slot's and is expressed by
  these decisions.
- How jobs and capacity were made from the Azure trace is not told. Ours: slots of an hour, a week
  an episode, Poisson arrivals by earliest start, cores 1, 2, 4, 8 and durations 1, 2, 3, 4, 6, 8
  with the published cases, windows and notices as in the config, capacity a daily swing with
  autocorrelated noise. The level was found by matching the published totals of the three rules.
- The capacity of other cases grows with the mean work of a job: no fixed capacity can give the
  published totals, in which Tetris grows 2.37 times where the work offered grows 1.98 times. Only
  the scaling of FIFO is expected to match.
- In the published constraint a job occupies d + 1 slots; here it is d.
- A job that expires costs nothing but its revenue; it is counted. So are jobs that still wait at
  the end. Revenue is paid in full at the start, also where a job ends after the horizon.
- `upper_bound` (a Lagrangian bound) stands beside every total reward.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.scenarios.deferrable import layout as m
from pipeline.scenarios.deferrable.bounds import upper_bound
from pipeline.scenarios.deferrable.dynamics import begin_slot, outcome, step
from pipeline.scenarios.deferrable.instances import Jobs, draw_capacity, draw_jobs
from pipeline.scenarios.deferrable.instances_from_trace import draw_trace, trace_slots
from pipeline.scenarios.deferrable.observation import observe
from pipeline.simulation.scenario import Instance, Scenario, require_room
from pipeline.simulation.spec import Feature, Outcome, Spec
from pipeline.workloads.schema import Workload

OBJECTIVES: Final = ("revenue", "utilisation")
GENERATED_WINDOWS: Final = 1_000_000


@dataclass(frozen=True)
class DeferrableConfig:
    """Settings of `deferrable`; the defaults are the base setting.

    setting            "realtime": every job is submitted at its earliest start, which is its latest
    jobs               "generated", or "trace": from the workload, see deferrable_trace
    horizon, slot_s    slots of an episode, seconds of a slot
    core_case, duration_case   the published distributions
    capacity           mean capacity in cores, before `scale_capacity` multiplies it by the mean
                       work of a job of these cases relative to that of the base
    draws_per_window   instances made of one stretch of the trace: window w is draw w % draws
    stretch            factor on the durations of the trace
    longest_trace_duration     VMs that last longer, in slots, are no jobs
    """

    setting: Literal["deferrable", "realtime"] = "deferrable"
    jobs: Literal["generated", "trace"] = "generated"
    horizon: int = 168
    slot_s: float = 3600.0
    jobs_per_slot: float = 8.5
    core_case: Literal[1, 2, 3] = 1
    duration_case: Literal[1, 2, 3] = 3
    fixed_share: float = 0.75
    longest_window: int = 10
    longest_notice: int = 24
    capacity: float = 26.0
    scale_capacity: bool = True
    capacity_swing: float = 0.2
    capacity_noise: float = 0.05
    capacity_correlation: float = 0.9
    delay_weight: float = 2.0
    violation_weight: float = 10.0
    draws_per_window: int = 1
    stretch: float = 1.0
    longest_trace_duration: int = 8


def _check(config: DeferrableConfig) -> None:
    """InputError that names the first setting out of its range."""
    for name, least in (
        ("horizon", 1),
        ("longest_window", 1),
        ("longest_notice", 0),
        ("jobs_per_slot", 0),
        ("capacity", 0),
        ("delay_weight", 0),
        ("violation_weight", 0),
        ("draws_per_window", 1),
        ("longest_trace_duration", 1),
    ):
        if getattr(config, name) < least:
            raise InputError(
                f"config.{name} is {getattr(config, name):g}, expected at least {least}"
            )
    for name in ("slot_s", "stretch"):
        if getattr(config, name) <= 0:
            raise InputError(f"config.{name} is {getattr(config, name):g}, expected more than 0")
    for name in ("fixed_share", "capacity_correlation"):
        if not 0 <= getattr(config, name) <= 1:
            raise InputError(f"config.{name} is {getattr(config, name):g}, expected 0 to 1")


def _context(config: DeferrableConfig) -> tuple[Feature, ...]:
    level, inf = max(config.capacity, 1.0), np.inf
    lags = (
        Feature(f"capacity_{lag}_ago", "cores", 0, inf, f"capacity {lag} slots ago", scale=level)
        for lag in range(1, m.LAGS + 1)
    )
    freed = (
        Feature(f"freed_in_{ahead}", "cores", 0, inf,
                f"cores of running jobs that end in {ahead} slots", scale=level / 4)
        for ahead in range(1, m.LOOKAHEAD + 1)
    )  # fmt: skip
    return (
        Feature("capacity", "cores", 0, inf, "cores left by on-demand work", scale=level),
        *lags,
        Feature("running_cores", "cores", 0, inf, "cores of running jobs", scale=level),
        Feature("free_cores", "cores", -inf, inf, "capacity - running cores", scale=level),
        *freed,
        Feature("startable", "jobs", 0, inf, "jobs that can start now", scale=10.0),
        Feature("startable_mean_cores", "cores", 0, inf, "their mean cores", scale=2.0),
        Feature("startable_mean_duration", "slots", 0, inf, "their mean duration", scale=2.0),
        Feature("future", "jobs", 0, inf, "known jobs that cannot start yet", scale=100.0),
        Feature("future_mean_cores", "cores", 0, inf, "their mean cores", scale=2.0),
        Feature("future_mean_duration", "slots", 0, inf, "their mean duration", scale=2.0),
        Feature("slots_left", "slots", 0, config.horizon, "until the end of the episode",
                scale=float(config.horizon)),
        Feature("delay_weight", "1", 0, inf, "what the objective takes off per slot of delay",
                scale=2.0),
    )  # fmt: skip


_CANDIDATES: Final = (
    Feature("cores", "cores", 0, np.inf, "cores of the job", scale=2.0),
    Feature("duration", "slots", 0, np.inf, "slots it runs", scale=2.0),
    Feature("until_earliest", "slots", -np.inf, np.inf, "earliest start - now", scale=10.0),
    Feature("until_latest", "slots", -np.inf, np.inf, "latest start - now", scale=10.0),
    Feature("since_submission", "slots", 0, np.inf, "now - submission", scale=10.0),
    Feature("remaining", "slots", 0, np.inf, "slots it still has to run", scale=2.0),
    Feature("is_running", "1", 0, 1, "1: the job runs"),
    Feature("is_startable", "1", 0, 1, "1: the job can start now"),
    Feature("is_future", "1", 0, 1, "1: the job cannot start yet"),
    Feature("closes", "1", 0, 1, "1: the row ends the slot"),
    Feature("job", "index", -1, np.inf, "which job, by earliest start; -1: none", identifier=True),
)

_OUTCOMES: Final = (
    Outcome("total_reward", "core-slots", "utilisation + both penalties (the paper's)", "higher"),
    Outcome("utilisation", "core-slots", "c d, summed over the jobs started", "higher"),
    Outcome("delay_penalty", "core-slots", "-w1 (start - earliest start), summed", "higher"),
    Outcome("violation_penalty", "core-slots", "-w2 (cores above the capacity), summed", "higher"),
    Outcome("mean_delay_slots", "slots", "start - earliest start, mean over the jobs started"),
    Outcome("violation", "core-slots", "cores above the capacity, summed over slots"),
    Outcome("jobs", "jobs", "jobs of the episode", "neither"),
    Outcome("started", "jobs", "jobs that were started", "higher"),
    Outcome("expired", "jobs", "jobs whose latest start passed"),
    Outcome("waiting_at_end", "jobs", "jobs neither started nor expired when the episode ended"),
    Outcome("offered", "core-slots", "c d, summed over all jobs", "neither"),
    Outcome("capacity", "core-slots", "capacity, summed over slots", "neither"),
    Outcome("capacity_used", "fraction", "core-slots occupied / capacity", "higher"),
    Outcome("upper_bound", "core-slots", "no policy has a higher total reward", "neither"),
    Outcome("optimality_ratio", "1", "total reward / upper bound", "higher"),
)


def spec(config: DeferrableConfig, objective: str) -> Spec:
    """Names of the observation, the reward terms and the outcomes."""
    return Spec(
        scenario="deferrable",
        objective=objective,
        context=_context(config),
        candidates=_CANDIDATES,
        reward_terms=(*OBJECTIVES, "delay", "violation"),
        outcomes=_OUTCOMES,
        discount=0.99,
    )


def windows(config: DeferrableConfig, workload: Workload) -> int:
    """A number without meaning where instances are generated; else what the trace has room for."""
    if config.jobs == "generated":
        return GENERATED_WINDOWS
    return trace_slots(config, workload) // config.horizon * config.draws_per_window


def instance(
    config: DeferrableConfig,
    objective: str,
    workload: Workload,
    window: int,
    rng: np.random.Generator,
) -> Instance:
    """The jobs and the capacity of a window, at the first decision of slot 0."""
    _check(config)
    require_room(500.0 * config.horizon * (1.0 + config.jobs_per_slot))  # the bound takes time, too
    if config.jobs == "trace":
        known = windows(config, workload)
        if window >= known:
            raise InputError(
                f"window {window} does not exist: {trace_slots(config, workload)} slots of trace "
                f"make {known} windows of {config.horizon} slots"
            )
        jobs, capacity = draw_trace(config, workload, window, rng)
    else:
        jobs = draw_jobs(config, rng)
        capacity = draw_capacity(config, rng)
    return make_instance(config, objective, jobs, capacity)


def make_instance(
    config: DeferrableConfig, objective: str, jobs: Jobs, capacity: NDArray[np.int64]
) -> Instance:
    """The memory of an episode with these jobs (ascending by earliest start) and capacity (T,)."""
    n, horizon = len(jobs.cores), len(capacity)
    longest = int(jobs.duration.max(initial=1))
    freed = horizon + longest + m.LOOKAHEAD + 1
    ints = np.zeros(m.INT_HEADER + 10 * n + horizon + freed, np.int64)
    at = m.INT_HEADER
    for place, length, values in (
        (m.CORES_AT, n, jobs.cores),
        (m.DURATION_AT, n, jobs.duration),
        (m.EARLIEST_AT, n, jobs.earliest),
        (m.LATEST_AT, n, jobs.latest),
        (m.SUBMITTED_AT, n, jobs.submitted),
        (m.BY_SUBMISSION_AT, n, np.argsort(jobs.submitted, kind="stable")),
        (m.START_AT, n, -1),
        (m.RUNNING_AT, n, 0),
        (m.STARTABLE_AT, n, 0),
        (m.FUTURE_AT, n, 0),
        (m.CAPACITY_AT, horizon, capacity),
        (m.FREED_AT, freed, 0),
    ):
        ints[place] = at
        ints[at : at + length] = values
        at += length
    ints[m.JOBS], ints[m.HORIZON] = n, horizon
    ints[m.OBJECTIVE] = OBJECTIVES.index(objective)
    floats = np.zeros(m.FLOAT_HEADER)
    floats[m.SLOT_S] = config.slot_s
    floats[m.DELAY_WEIGHT] = config.delay_weight
    floats[m.VIOLATION_WEIGHT] = config.violation_weight
    floats[m.SHOWN_DELAY_WEIGHT] = config.delay_weight if objective == "revenue" else 0.0
    floats[m.UPPER_BOUND] = upper_bound(
        jobs, capacity, config.delay_weight, config.violation_weight
    )
    begin_slot(ints)
    return Instance(ints, floats, capacity=_most_rows(jobs, horizon))


def _most_rows(jobs: Jobs, horizon: int) -> int:
    """Rows of an observation at most: jobs between submission and latest end, and the close."""
    gone = jobs.latest + jobs.duration
    change = np.bincount(np.minimum(jobs.submitted, horizon), minlength=horizon + 1)
    change -= np.bincount(np.minimum(gone, horizon), minlength=horizon + 1)
    return int(np.cumsum(change[:horizon]).max(initial=0)) + 1


SCENARIO: Final = Scenario(
    name="deferrable",
    config=DeferrableConfig,
    objectives=OBJECTIVES,
    spec=spec,
    windows=windows,
    instance=instance,
    observe=observe,
    step=step,
    outcome=outcome,
    bound="upper_bound",
    bound_kind="upper",
    about=__doc__,
)
