"""Settings of `binpack`."""

from dataclasses import dataclass
from typing import Literal


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

    machines: int = 5
    machine_cores: float = 64.0
    machine_memory: float = 1.0
    cluster: Literal["uniform", "trace"] = "uniform"
    jobs_per_window: int = 10
    features: Literal["paper", "extended"] = "paper"
    allow_wait: bool = False
    compat: Literal["", "cloudsimpy"] = ""
