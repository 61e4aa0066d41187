"""The 2018 data-centre report: a DQN that places jobs on the six servers of `thermal`."""

from typing import Final

from hindcast.flows.calibrations import Calibration
from hindcast.pipeline.exports import Export
from hindcast.policies.offline import Agent

REPORT_DQN: Final = Agent(
    "report_dqn",
    f"{__name__}.agent",
    transitions=True,
    description="DQN of a 2018 data-centre report, errors corrected; for thermal only",
    scenarios=("thermal",),
)
CALIBRATION: Final = Calibration(
    f"{__name__}.calibration:table", "the record of the 2018 report's Figure 4"
)
CHOICES: Final = Calibration(
    f"{__name__}.choices:table",
    "2018 report, Figures 7 and 8: usage, efficiency and distance of the servers that each "
    "checkpoint of RUN chooses at logged decisions, and of the others (train --checkpoint-every)",
    reads=("split", "seed"),
    folders=("DATASET", "RUN"),
)
HISTORY: Final = Export(
    "history",
    f"{__name__}.history.export",
    "JSON of the thermal report, with states before decisions (scenario thermal only)",
    "propensities, reward terms, ends of episodes, the calendar's columns",
    folder=False,
)
