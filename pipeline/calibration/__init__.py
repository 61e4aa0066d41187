"""Calibrations: results of a scenario's rules beside the numbers printed in its paper.

A scenario has a calibration if its paper leaves settings open, or if it reproduces a simulator that
was published with its numbers.
"""

from collections.abc import Mapping
from typing import Final

# Each module has calibrate(rules, episodes=..., seed=0, progress=None) -> polars.DataFrame.
CALIBRATIONS: Final[Mapping[str, str]] = {
    "deferrable": "hindcast.pipeline.calibration.deferrable",
    "multicluster": "hindcast.pipeline.calibration.multicluster",
    "rlscheduler": "hindcast.pipeline.calibration.rlscheduler",
    "thermal": "hindcast.pipeline.calibration.thermal",
}
