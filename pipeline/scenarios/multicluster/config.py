"""Settings of `multicluster`, and the checks of their values."""

from dataclasses import dataclass
from typing import Final, Literal

from pipeline.errors import InputError

EVAL_MISS: Final = 0.02  # weight of a missed deadline in Eval, relative to a percent of delay


@dataclass(frozen=True)
class MulticlusterConfig:
    """Settings of `multicluster`. A pair [low, high] includes both ends.

    Attributes:
        arrivals: Pattern of arrival events: "bernoulli", "uniform" or "beta".
        setting: Factor on n: "standard" 1, "eased" .79, "stressed" 1.33, or "matched" .92, which
            fits the paper's numbers for "bernoulli".
        applications: Number of applications in an episode, at least 1.
        clusters: Number of executors of each cluster, each at least 1.
        limit: Step at which an episode is truncated, at least 1.
        categories: Probabilities of regular, critical and streaming applications, which sum to 1.
        execution: Range of s, the steps of one task; at least 1.
        tasks: Range of n, the tasks of a run; at least 1.
        streaming_share: Factor on n for streaming applications, above 0.
        batches: Range of k, the batches of a streaming application; at least 1.
        period: Range of the time between batches, as a multiple of s; at least 1.
        deadline: Range of the deadline of a run, as a multiple of s; at least 0.
        arrival_probability: Probability of an arrival event per step if `arrivals` is "bernoulli";
            above 0, at most 1.
        arrival_interval: Range of the steps between arrival events if `arrivals` is "uniform"; at
            least 1.
        arrival_beta: Parameters alpha and beta of the steps between arrival events if `arrivals`
            is "beta"; above 0.
        arrival_beta_steps: Largest number of steps between arrival events if `arrivals` is "beta",
            above 0.
        jobs_mean: Mean number of applications per arrival event, before it is rounded and raised
            to 1.
        jobs_mean_bernoulli: The same if `arrivals` is "bernoulli".
        jobs_deviation: Standard deviation of that number, above 0.
        miss_weight: Weight of a missed deadline in the objective `misses_and_delay`.
        later_miss_weight: Weight in it of a missed deadline for every other application that is
            deployed and has not ended.
        delay_weight: Weight in it of the relative delay.
        own_misses_after: Whether an application's own misses count among those after its
            deployment.
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
    """Raise InputError for a setting that is out of its range."""
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
            f"config.clusters is {list(config.clusters)}, expected the executors of at least "
            "one cluster, each at least 1"
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
