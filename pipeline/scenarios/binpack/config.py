"""The settings of `binpack`."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class BinpackConfig:
    """Settings of `binpack`.

    cluster = "uniform": `machines` machines of `machine_cores` and `machine_memory`;
    "trace": the first `machines` machines of the workload's own list.
    """

    machines: int = 5
    machine_cores: float = 64.0
    machine_memory: float = 1.0
    cluster: Literal["uniform", "trace"] = "uniform"
    jobs_per_window: int = 10
    features: Literal["paper", "extended"] = "paper"
    allow_wait: bool = False
    compat: Literal["", "cloudsimpy"] = ""
