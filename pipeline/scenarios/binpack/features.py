"""Names of the features, reward terms and outcomes of `binpack`, and their indices in arrays."""

from typing import Final

import numpy as np

from hindcast.pipeline.scenarios.binpack import layout as m
from hindcast.pipeline.scenarios.binpack.config import BinpackConfig
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec, columns

OBJECTIVES: Final = ("makespan", "completion", "slowdown")


def _feature(
    name: str,
    unit: str,
    description: str,
    scale: float,
    *,
    high: float = np.inf,
    heavy_tailed: bool = False,
) -> Feature:
    """Return a feature that is never negative."""
    return Feature(name, unit, 0.0, high, description, heavy_tailed, scale=scale)


def _as_held(amount: float, unit: float) -> float:
    """Return an amount as the memory holds it, in whole units."""
    rounded = float(np.rint(amount * unit) / unit)
    return amount if rounded == amount else rounded


def candidate_features(config: BinpackConfig) -> tuple[Feature, ...]:
    """Return the columns of a candidate; those of `features = "extended"` come last."""
    cores, memory = config.machine_cores, config.machine_memory
    if config.cluster == "trace":
        cores = memory = np.inf
    elif config.compat != "cloudsimpy":
        cores, memory = _as_held(cores, m.MILLI_CORES), _as_held(memory, m.NANO_MEMORY)
    paper = (
        _feature("free_cores", "cores", "free cores of the machine", 20.0, high=cores),
        _feature("free_memory", "fraction", "free memory of the machine", 0.3, high=memory),
        _feature("cores", "cores", "cores that one instance of the task needs", 0.5, high=cores),
        _feature("memory", "fraction", "memory that one instance of the task needs",
                 0.005, high=memory),
        _feature("duration_s", "s", "duration of one instance of the task",
                 60.0, heavy_tailed=True),
        _feature("unplaced", "instances", "unplaced instances of the task",
                 100.0, heavy_tailed=True),
        Feature(
            "machine", "index", -1, np.inf,
            "number of the machine; -1 in the row that lets time pass", identifier=True,
        ),
    )  # fmt: skip
    extended = (
        _feature("total", "instances", "instances of the task", 100.0, heavy_tailed=True),
        _feature("running", "instances", "running instances of the task", 20.0, heavy_tailed=True),
        _feature(
            "finished", "instances", "finished instances of the task", 50.0, heavy_tailed=True
        ),
    )
    return paper + (extended if config.features == "extended" else ())


CONTEXT: Final = (
    _feature("free_cores_total", "cores", "free cores of all machines", 100.0),
    _feature("free_memory_total", "fraction", "free memory of all machines", 2.0),
    _feature("waiting_tasks", "tasks", "tasks with unplaced instances", 20.0),
    _feature("unplaced_total", "instances", "unplaced instances of all arrived tasks",
             1000.0, heavy_tailed=True),
    _feature("running_total", "instances", "running instances of all tasks",
             300.0, heavy_tailed=True),
    _feature("machine_cores", "cores", "cores of the largest machine", 64.0),
    _feature("machine_memory", "fraction", "memory of the largest machine", 1.0),
)  # fmt: skip

OUTCOMES: Final = (
    Outcome("makespan_s", "s", "first tick at which all instances have finished"),
    Outcome("mean_completion_s", "s", "finish - submission, mean over tasks"),
    Outcome("mean_slowdown", "1", "(finish - submission) / duration, mean over tasks"),
    Outcome("mean_completion_from_start_s", "s",
            "finish - first start, mean over tasks (as published)"),
    Outcome("mean_slowdown_from_start", "1",
            "(finish - first start) / duration, mean over tasks (as published)"),
    Outcome("cpu_utilisation", "fraction", "core-seconds of work divided by core-seconds offered",
            "higher"),
    Outcome("memory_utilisation", "fraction",
            "memory-seconds of work divided by memory-seconds offered", "higher"),
    Outcome("work_lower_bound_s", "s",
            "lower bound of the makespan: the larger of work / capacity and critical path",
            "neither"),
    Outcome("lower_bound_s", "s", "that bound over suffixes of arrivals, in whole ticks",
            "neither"),
    Outcome("optimality_ratio", "1", "makespan divided by lower_bound_s"),
    Outcome("unfinished", "tasks", "tasks that did not finish"),
)  # fmt: skip

MOMENT: Final = columns(CONTEXT)
ROW: Final = columns(candidate_features(BinpackConfig(features="extended")))
PAPER_COLUMNS: Final = len(candidate_features(BinpackConfig()))  # the first columns of ROW
TERM: Final = columns(OBJECTIVES)
OUT: Final = columns(OUTCOMES)


def spec(config: BinpackConfig, objective: str) -> Spec:
    """Return the names of the observation, the reward terms and the outcomes."""
    return Spec(
        scenario="binpack",
        objective=objective,
        context=CONTEXT,
        candidates=candidate_features(config),
        reward_terms=OBJECTIVES,
        outcomes=OUTCOMES,
    )
