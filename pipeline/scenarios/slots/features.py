"""Names of the features, reward terms and outcomes of `slots`, and their indices in arrays."""

import math
from typing import Final

import numpy as np

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.slots.config import SlotsConfig, sizes_of
from hindcast.pipeline.simulation.spec import MOST_PIXELS, Feature, Outcome, Spec, columns

OBJECTIVES: Final = ("slowdown", "completion", "utilisation")

OUTCOMES: Final = (
    Outcome("mean_slowdown", "1", "(finish - enter) / length, mean over jobs"),
    Outcome("jobs", "jobs", "jobs that entered; with compat, jobs that were placed", "neither"),
    Outcome("slowdown_sum", "1", "sum of slowdowns; divide by jobs after adding up windows"),
    Outcome("mean_completion_s", "s", "finish - enter, mean over jobs"),
    Outcome("utilisation", "fraction",
            "share of the slots in use, mean over time steps and resources", "higher"),
    Outcome("unfinished", "jobs", "jobs that entered and did not finish"),
    Outcome("dropped", "jobs", "jobs dropped because the backlog was full"),
    Outcome("left_out", "jobs",
            "jobs of a trace's window left out because they exceed the horizon"),
    Outcome("time_steps", "steps", "time steps until the end of the episode"),
    Outcome("actions", "1", "placements and time steps", "neither"),
    Outcome("expected_load", "1", "work per time step over capacity, expected from the settings",
            "neither"),
    Outcome("offered_load", "1", "work per time step over capacity, measured from the arrivals",
            "neither"),
    Outcome("report_load", "1",
            "share of the queue in use + share of the slots in use, mean over time steps",
            "neither"),
)  # fmt: skip


def context_features(config: SlotsConfig) -> tuple[Feature, ...]:
    """Return the features: STEP per time step, SLOT per slot of the queue, the backlog."""
    sizes = sizes_of(config)
    r, h = sizes.slots_per_resource, sizes.horizon
    features: list[Feature] = []
    for step in range(h):
        when = f"in {step} time steps"
        features += (
            Feature(f"free_cpu_{step:02}", "slots", 0, r, f"free cpu slots {when}", scale=r / 2),
            Feature(f"free_memory_{step:02}", "slots", 0, r, f"free memory slots {when}",
                    scale=r / 2),
            Feature(f"jobs_{step:02}", "jobs", 0, 2 * r, f"jobs in the machine {when}", scale=2.0),
        )  # fmt: skip
    for slot in range(config.queue):
        whose = f"of the job in slot {slot}"
        features += (
            Feature(f"cpu_{slot}", "slots", 0, r, f"cpu slots needed {whose}", scale=r / 2),
            Feature(f"memory_{slot}", "slots", 0, r, f"memory slots needed {whose}", scale=r / 2),
            Feature(
                f"length_{slot}", "steps", 0, h, f"length {whose}", heavy_tailed=True, scale=h / 4
            ),
        )
    backlog = Feature(
        "backlog", "jobs", 0, config.backlog, "jobs in the backlog, behind the queue", scale=10.0
    )
    return (*features, backlog)


def candidate_features(config: SlotsConfig) -> tuple[Feature, ...]:
    """Return the columns of a row. Columns of options come last."""
    sizes = sizes_of(config)
    r, h, m = sizes.slots_per_resource, sizes.horizon, config.queue
    foresight = (
        Feature("delays", "1", 0, np.inf,
                "slowdown that starting the job now adds to the other visible jobs",
                heavy_tailed=True),
        Feature("delays_shorter", "1", 0, np.inf,
                "slowdown that starting the job now adds to the shorter visible jobs",
                heavy_tailed=True),
        Feature("cpu_wait", "steps", 0, h,
                "steps until d cpu slots are free, once the job has started if it can start now, "
                "mean over d = r/2 .. r", scale=h / 4),
        Feature("memory_wait", "steps", 0, h,
                "steps until d memory slots are free, once the job has started if it can start "
                "now, mean over d = r/2 .. r", scale=h / 4),
    )  # fmt: skip
    place = Feature("place", "1", 0, m, "slot of the queue; M in the row that moves on",
                    identifier=True)  # fmt: skip
    return (
        Feature("length", "steps", 0, h, "length of the job", heavy_tailed=True, scale=h / 4),
        Feature("cpu", "slots", 0, r, "cpu slots that the job needs", scale=r / 2),
        Feature("memory", "slots", 0, r, "memory slots that the job needs", scale=r / 2),
        Feature("waited", "steps", 0, np.inf, "time since the job entered", heavy_tailed=True,
                scale=10.0),
        Feature("offset", "steps", 0, h,
                "start of the job's earliest window; the horizon if it has none",
                scale=h / 4),
        Feature("fits_now", "flag", 0, 1, "1 if the earliest window of the job starts now"),
        Feature("move_on", "flag", 0, 1, "1 in the row that lets a time step pass"),
        Feature("tie", "slots", 0, 2 * r,
                "total demand, by which rules order jobs that they find equal; 0 if they take the "
                "lowest slot", identifier=True, scale=r / 2),
        Feature("urgency", "1/steps", 0, 1,
                "1 / length: slowdown that a time step adds to the job"),
        Feature("shorter", "jobs", 0, m, "visible jobs shorter than the job", scale=m / 2),
        Feature("crowded_out", "1/steps", 0, m,
                "urgency of the visible jobs that fit now, but not beside the job"),
        Feature("quiet", "steps", 0, np.inf, "time since the last arrival", heavy_tailed=True,
                scale=10.0),
        Feature("queued", "jobs", 0, m + config.backlog, "jobs in the queue and in the backlog",
                scale=m / 2),
        Feature("free_cpu", "slots", 0, r, "free cpu slots now", scale=r / 2),
        Feature("free_memory", "slots", 0, r, "free memory slots now", scale=r / 2),
        Feature("running", "jobs", 0, 2 * r, "jobs in the machine now", scale=2.0),
        *(foresight if config.foresight else ()),
        *((place,) if config.observation == "image" else ()),
    )  # fmt: skip


STEP: Final = columns(("free_cpu", "free_memory", "jobs"))  # of the context, per time step
SLOT: Final = columns(("cpu", "memory", "length"))  # of the context, per slot of the queue
ROW: Final = columns(candidate_features(SlotsConfig(foresight=True, observation="image")))
TERM: Final = columns(OBJECTIVES)
OUT: Final = columns(OUTCOMES)


def image_shape(config: SlotsConfig) -> tuple[int, ...]:
    """Return rows and columns of the image. Raises InputError for more than MOST_PIXELS pixels."""
    sizes = sizes_of(config)
    machine = 2 * sizes.slots_per_resource * (1 + config.queue)
    shape = (sizes.horizon, machine + -(-config.backlog // sizes.horizon) + 1)
    if math.prod(shape) > MOST_PIXELS:
        raise InputError(
            f"the image has {shape[0]} x {shape[1]} pixels, expected at most {MOST_PIXELS}; make "
            "config.horizon, config.queue or config.slots_per_resource smaller"
        )
    return shape


def spec(config: SlotsConfig, objective: str) -> Spec:
    """Return the names of the observation, the reward terms and the outcomes."""
    return Spec(
        scenario="slots",
        objective=objective,
        context=context_features(config),
        candidates=candidate_features(config),
        reward_terms=OBJECTIVES,
        outcomes=OUTCOMES,
        image_shape=image_shape(config) if config.observation == "image" else (),
    )
