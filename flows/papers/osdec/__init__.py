"""OSDEC: scores for all jobs of a slot of `deferrable`, drawn at once."""

from typing import Final

from hindcast.flows.calibrations import Calibration
from hindcast.policies.online import OnlineAgent

SCORE_PPO: Final = OnlineAgent(
    "score_ppo",
    f"{__name__}.agent",
    "policy gradient on scores of all jobs of a slot, drawn at once (OSDEC, variants)",
    scenarios=("deferrable",),
    whole=True,
)
CALIBRATION: Final = Calibration(
    f"{__name__}.calibration:table",
    "settings that the paper does not publish were fitted: rules beside its numbers",
    reads=("episodes", "seed"),
)
