"""Time-critical workloads (Liu et al.): values of clusters of `multicluster`, by Monte Carlo."""

from typing import Final

from hindcast.flows.calibrations import Calibration
from hindcast.policies.online import OnlineAgent

MONTE_CARLO_VALUE: Final = OnlineAgent(
    "monte_carlo_value",
    f"{__name__}.agent",
    "Monte-Carlo values, a replay buffer and exploration guided by a rule (Liu et al.)",
    scenarios=("multicluster",),
)
CALIBRATION: Final = Calibration(
    f"{__name__}.calibration:table",
    "settings that the paper does not publish were fitted: rules beside its numbers",
    reads=("episodes", "seed"),
)
COMPARISONS: Final = Calibration(
    f"{__name__}.comparisons:table",
    "Liu et al., Tables II and III: missed deadlines, delay, Score-A to Score-D of every policy "
    "against each POLICY",
    reads=("policies",),
    folders=("EVALUATION",),
    needs="policies",
)
