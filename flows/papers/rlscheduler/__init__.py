"""RLScheduler: the published simulator, its rules and its agent."""

from collections.abc import Mapping
from typing import Final

from hindcast.flows.calibrations import Calibration

CALIBRATION: Final = Calibration(
    f"{__name__}.calibration:table",
    "rules in the published simulator beside the published numbers",
    reads=("episodes",),  # the sequences are drawn with a seed of their own
)
SCENARIO: Final = f"{__name__}.scenario"  # its module compiles when it is imported
ENVIRONMENT: Final[Mapping[str, str]] = {
    "scenario": "rlscheduler",
    "recipe": "rlscheduler-lublin1-v1",
}
