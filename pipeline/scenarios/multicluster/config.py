"""Settings of `multicluster`, and the checks of their values."""

from dataclasses import dataclass, field
from typing import Final, Literal

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT

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
        foresight: Whether rows also show the urgency of the application, its cost to the others in
            the pool and how well it fits the cluster, in fourteen more columns.
    """

    arrivals: Literal["bernoulli", "uniform", "beta"] = "uniform"
    setting: Literal["standard", "eased", "stressed", "matched"] = "standard"
    applications: int = number(500, "from 1 to 1,000,000")
    clusters: tuple[int, ...] = number((500, 800, 1200, 1300, 1900), "from 1 to 1,000,000")
    limit: int = number(20_000, "from 1 to 1,000,000,000", "steps")
    categories: tuple[float, ...] = number((0.5, 0.25, 0.25), "from 0 to 1")
    execution: tuple[int, ...] = number((34, 42), "from 1 to 1,000,000,000", "steps")
    tasks: tuple[int, ...] = number((230, 265), "from 1 to 1,000,000,000")
    streaming_share: float = number(0.076, "above 0")
    batches: tuple[int, ...] = number((34, 72), "from 1 to 1,000,000")
    period: tuple[float, ...] = number((1.3, 1.75), "at least 1")
    deadline: tuple[float, ...] = number((1.03, 1.10), "at least 0")
    arrival_probability: float = number(0.08, "above 0, at most 1")
    arrival_interval: tuple[int, ...] = number((1, 39), "from 1 to 1,000,000,000", "steps")
    arrival_beta: tuple[float, ...] = number((4.0, 2.0), "above 0")
    arrival_beta_steps: int = number(30, "from 1 to 1,000,000,000", "steps")
    jobs_mean: float = number(3.0, "from -1,000,000 to 1,000,000")
    jobs_mean_bernoulli: float = number(1.5, "from -1,000,000 to 1,000,000")
    jobs_deviation: float = number(1.0, "above 0, at most 1,000,000")
    miss_weight: float = number(1.0, "any")
    later_miss_weight: float = number(0.02, "any")
    delay_weight: float = number(0.1, "any")
    own_misses_after: bool = False
    foresight: bool = field(default=False, metadata=LEFT_OUT_WHEN_DEFAULT)


def check_config(config: MulticlusterConfig) -> None:
    """Raise InputError for a setting that is out of its range."""
    check_ranges(config, "config")
    for name in ("execution", "tasks", "batches", "period", "deadline", "arrival_interval"):
        span = getattr(config, name)
        if len(span) != 2 or span[0] > span[1]:
            raise InputError(
                f"config.{name} is {list(span)}, expected [low, high] with low <= high"
            )
    if not config.clusters:
        raise InputError("config.clusters is [], expected the executors of at least one cluster")
    shares = config.categories
    if len(shares) != 3 or abs(sum(shares) - 1) > 1e-9:
        raise InputError(
            f"config.categories is {list(shares)}, expected the probabilities of regular, critical "
            "and streaming, which sum to 1"
        )
    if len(config.arrival_beta) != 2:
        raise InputError(
            f"config.arrival_beta is {list(config.arrival_beta)}, expected [alpha, beta]"
        )
