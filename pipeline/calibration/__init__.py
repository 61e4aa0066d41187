"""Calibrations: results of a scenario's rules beside the numbers printed in its paper.

A scenario has a calibration if its paper leaves settings open.
"""

from collections.abc import Mapping
from typing import Final

# Each module has calibrate(rules, episodes=..., seed=0, progress=None) -> polars.DataFrame.
CALIBRATIONS: Final[Mapping[str, str]] = {
    "deferrable": "pipeline.calibration.deferrable",
    "multicluster": "pipeline.calibration.multicluster",
}
