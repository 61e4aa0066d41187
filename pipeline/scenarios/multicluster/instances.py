"""Drawn applications of a `multicluster` episode: arrivals, sizes, deadlines, batch needs."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig
from hindcast.pipeline.scenarios.multicluster.features import ROW
from hindcast.pipeline.scenarios.multicluster.layout import BINS, SHOWN

REGULAR: Final = 0
CRITICAL: Final = 1  # time-critical, one run
STREAMING: Final = 2  # time-critical, one run per batch

FACTORS: Final = np.linspace(0.55, 1.45, BINS)  # of a batch's need, one per bin

SETTINGS: Final = {"standard": 1.0, "eased": 0.79, "stressed": 1.33, "matched": 0.92}


@dataclass(frozen=True)
class Applications:
    """J applications in the order of their arrival.

    Attributes:
        arrival: Step of the arrival, (J,).
        category: REGULAR, CRITICAL or STREAMING, (J,).
        execution: Steps s of one task, (J,).
        tasks: Number n of tasks, (J,). For a streaming application, the need of a batch before its
            factor.
        deadline: Steps that a run may take, (J,) float64; infinite for REGULAR.
        runs: Number of runs: 1, or the number of batches, (J,).
        period: Steps between batches, (J,); 0 for an application with one run.
        profile: Probability of each factor, (J, BINS). For an application that always needs all n
            tasks, an even mix of .95 and 1.05.
        needs: Tasks of every run, (sum of runs,), application by application.
    """

    arrival: NDArray[np.int64]
    category: NDArray[np.int64]
    execution: NDArray[np.int64]
    tasks: NDArray[np.int64]
    deadline: NDArray[np.float64]
    runs: NDArray[np.int64]
    period: NDArray[np.int64]
    profile: NDArray[np.float64]
    needs: NDArray[np.int64]


def draw_intervals(
    config: MulticlusterConfig, size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the steps between arrival events, (size,), each at least 1."""
    if config.arrivals == "bernoulli":
        return rng.geometric(config.arrival_probability, size)
    if config.arrivals == "uniform":
        low, high = config.arrival_interval
        return rng.integers(low, high + 1, size)
    # F(i/M) - F((i-1)/M) is the probability that M times a beta variate rounds up to i
    alpha, beta = config.arrival_beta
    variates = rng.beta(alpha, beta, size) * config.arrival_beta_steps
    return np.maximum(np.ceil(variates).astype(np.int64), 1)


def draw_arrivals(config: MulticlusterConfig, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return ascending arrival steps; the last event is cut to the number of applications."""
    j = config.applications
    at = np.cumsum(draw_intervals(config, j, rng))  # an event brings at least one application
    mean = config.jobs_mean_bernoulli if config.arrivals == "bernoulli" else config.jobs_mean
    jobs = np.maximum(np.rint(rng.normal(mean, config.jobs_deviation, j)).astype(np.int64), 1)
    jobs = np.minimum(jobs, j)
    events = int(np.searchsorted(np.cumsum(jobs), j)) + 1  # later events bring no application
    return np.repeat(at[:events], jobs[:events])[:j]


def draw_applications(config: MulticlusterConfig, rng: np.random.Generator) -> Applications:
    """Return the drawn applications; settings of one arrival pattern differ only in needs."""
    j = config.applications
    arrival = draw_arrivals(config, rng)
    category = rng.choice(3, j, p=config.categories)
    streaming = category == STREAMING
    execution = rng.integers(*_inclusive(config.execution), j)
    tasks = rng.integers(*_inclusive(config.tasks), j) * SETTINGS[config.setting]
    tasks = np.where(streaming, tasks * config.streaming_share, tasks)
    batches = rng.integers(*_inclusive(config.batches), j)
    period = np.rint(execution * _within(config.period, j, rng)).astype(np.int64)
    deadline = execution * _within(config.deadline, j, rng)
    profile = rng.dirichlet(np.ones(BINS), j)
    runs = np.where(streaming, batches, 1)
    needs = draw_needs(tasks, streaming, profile, runs, rng)
    even_mix = np.zeros(BINS)
    even_mix[BINS // 2 - 1 : BINS // 2 + 1] = 0.5
    return Applications(
        arrival=arrival,
        category=category,
        execution=execution,
        tasks=np.maximum(np.rint(tasks).astype(np.int64), 1),
        deadline=np.where(category == REGULAR, np.inf, deadline),
        runs=runs,
        period=np.where(streaming, period, 0),
        profile=np.where(streaming[:, None], profile, even_mix),
        needs=needs,
    )


def draw_needs(
    tasks: NDArray[np.floating] | NDArray[np.int64],
    streaming: NDArray[np.bool_],
    profile: NDArray[np.float64],
    runs: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return the tasks of every run, (sum of runs,), from columns (J,) of the applications."""
    cumulative = np.repeat(np.cumsum(profile, axis=1), runs, axis=0)
    drawn = (rng.random((len(cumulative), 1)) >= cumulative[:, :-1]).sum(axis=1)
    factors = np.where(np.repeat(streaming, runs), FACTORS[drawn], 1.0)
    needs: NDArray[np.int64] = np.rint(np.repeat(tasks, runs) * factors).astype(np.int64)
    return np.maximum(needs, 1)


def rows_of(a: Applications) -> NDArray[np.float64]:
    """Return the features of the applications in the order of ROW, (J, SHOWN)."""
    rows = np.empty((len(a.arrival), SHOWN))
    rows[:, ROW.category] = a.category
    rows[:, ROW.profile_0 : ROW.profile_0 + BINS] = a.profile
    rows[:, ROW.execution] = a.execution / 100.0
    rows[:, ROW.deadline] = np.where(np.isinf(a.deadline), 0.0, a.deadline) / 100.0
    rows[:, ROW.duration] = (
        np.where(a.category == STREAMING, a.runs * a.period, a.execution) / 1000.0
    )
    rows[:, ROW.tasks] = a.tasks / 100.0
    return rows


def _within(span: tuple[float, ...], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw uniformly within a range."""
    return rng.uniform(span[0], span[1], size)


def _inclusive(span: tuple[int, ...]) -> tuple[int, int]:
    """Return a range as the arguments of `Generator.integers`."""
    return span[0], span[1] + 1
