"""Prices of coming slots of `deferrable`, learned by playing or from a log; ours."""

from typing import Final

from hindcast.policies.offline import Agent
from hindcast.policies.online import OnlineAgent

PRICE_SURFACE: Final = Agent(
    "price_surface",
    f"{__name__}.surface",
    transitions=False,
    description="price surface: prices of coming slots, by regression on the outcomes of episodes "
    "that drew theirs (random_prices); for deferrable only",
    per_episode=1,
    scenarios=("deferrable",),
    around=True,
)
PRICE_EVOLUTION: Final = OnlineAgent(
    "price_evolution",
    f"{__name__}.agent",
    "CMA-ES on prices of a core in the coming slots, for an exact knapsack (ours)",
    scenarios=("deferrable",),
    whole=True,
)
