"""The settings of `multicluster`, and what they may be."""

from dataclasses import dataclass
from typing import Final, Literal

from pipeline.errors import InputError

EVAL_MISS: Final = 0.02  # what a missed deadline weighs against a percent of delay in Eval


@dataclass(frozen=True)
class MulticlusterConfig:
    """Settings of `multicluster`; spans are inclusive, [low, high].

    setting           scales n: eased .79, stressed 1.33, matched .92 (for bernoulli)
    categories        probabilities of regular, critical and streaming
    execution         s, steps of one task
    tasks             n, tasks of a run; of a streaming application, times `streaming_share`
    batches           k, batches of a streaming application
    period, deadline  as multiples of s
    """

    arrivals: Literal["bernoulli", "uniform", "beta"] = "uniform"
    setting: Literal["standard", "eased", "stressed", "matched"] = "standard"
    applications: int = 500
    clusters: tuple[int, ...] = (500, 800, 1200, 1300, 1900)
    limit: int = 20_000
    categories: tuple[float, ...] = (0.5, 0.25, 0.25)
    execution: tuple[int, ...] = (34, 42)
    tasks: tuple[int, ...] = (230, 265)
    streaming_share: float = 0.076
    batches: tuple[int, ...] = (34, 72)
    period: tuple[float, ...] = (1.3, 1.75)
    deadline: tuple[float, ...] = (1.03, 1.10)
    arrival_probability: float = 0.08
    arrival_interval: tuple[int, ...] = (1, 39)
    arrival_beta: tuple[float, ...] = (4.0, 2.0)
    arrival_beta_steps: int = 30
    jobs_mean: float = 3.0
    jobs_mean_bernoulli: float = 1.5
    jobs_deviation: float = 1.0
    miss_weight: float = 1.0
    later_miss_weight: float = 0.02
    delay_weight: float = 0.1
    own_misses_after: bool = False


def check_config(config: MulticlusterConfig) -> None:
    """InputError that names the setting which cannot be run."""
    spans: tuple[tuple[str, tuple[float, ...], float], ...] = (
        ("execution", config.execution, 1), ("tasks", config.tasks, 1),
        ("batches", config.batches, 1), ("period", config.period, 1.0),
        ("deadline", config.deadline, 0.0), ("arrival_interval", config.arrival_interval, 1),
    )  # fmt: skip
    for name, span, least in spans:
        if len(span) != 2 or not least <= span[0] <= span[1]:
            raise InputError(
                f"config.{name} is {list(span)}, expected [low, high] with {least:g} <= low <= high"
            )
    for name, positive in (
        ("applications", config.applications), ("limit", config.limit),
        ("streaming_share", config.streaming_share), ("jobs_deviation", config.jobs_deviation),
        ("arrival_beta_steps", config.arrival_beta_steps),
    ):  # fmt: skip
        if positive <= 0:
            raise InputError(f"config.{name} is {positive}, expected more than 0")
    if not config.clusters or min(config.clusters) < 1:
        raise InputError(
            f"config.clusters is {list(config.clusters)}, expected executors of at least one "
            "cluster, each at least 1"
        )
    shares = config.categories
    if len(shares) != 3 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-9:
        raise InputError(
            f"config.categories is {list(shares)}, expected the probabilities of regular, critical "
            "and streaming, which sum to 1"
        )
    if not 0 < config.arrival_probability <= 1:
        raise InputError(
            f"config.arrival_probability is {config.arrival_probability}, expected 0 < p <= 1"
        )
    if len(config.arrival_beta) != 2 or min(config.arrival_beta) <= 0:
        raise InputError(
            f"config.arrival_beta is {list(config.arrival_beta)}, expected [alpha, beta] above 0"
        )
