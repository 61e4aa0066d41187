"""Settings of `binpack`."""

from dataclasses import dataclass
from typing import Literal

from hindcast.pipeline.settings.ranges import number


@dataclass(frozen=True)
class BinpackConfig:
    """Settings of `binpack`.

    Attributes:
        machines: Number of machines, at least 1.
        machine_cores: Cores of a machine if `cluster` is "uniform".
        machine_memory: Memory of a machine if `cluster` is "uniform", in the unit of the workload.
        cluster: "uniform" for equal machines, or "trace" for the first `machines` machines of the
            workload.
        jobs_per_window: Number of consecutive jobs in a window, at least 1.
        features: Columns of the candidates: "paper" for those of the paper, or "extended" for three
            more that count the instances of the task.
        allow_wait: Whether a last candidate lets time pass although an instance fits.
        compat: "cloudsimpy" for the event order of the published simulator, or "".
    """

    machines: int = number(5, "from 1 to 100,000")
    machine_cores: float = number(64.0, "above 0", "cores")
    machine_memory: float = number(1.0, "above 0")
    cluster: Literal["uniform", "trace"] = "uniform"
    jobs_per_window: int = number(10, "from 1 to 1,000,000")
    features: Literal["paper", "extended"] = "paper"
    allow_wait: bool = False
    compat: Literal["", "cloudsimpy"] = ""
