"""Calibrations: where a paper leaves settings open, ours beside its numbers; by scenario."""

from collections.abc import Mapping
from typing import Final

# A module each, with calibrate(rules, episodes=..., seed=0, progress=None) -> polars.DataFrame.
CALIBRATIONS: Final[Mapping[str, str]] = {
    "deferrable": "pipeline.calibration.deferrable",
    "multicluster": "pipeline.calibration.multicluster",
}
