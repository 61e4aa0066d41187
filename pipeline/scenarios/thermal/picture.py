"""Picture of `thermal`: usage and heat of the servers, and where they stand."""

from hindcast.pipeline.simulation.picture import Panel
from hindcast.pipeline.simulation.spec import Spec


def picture(_spec: Spec) -> tuple[Panel, ...]:
    """Return heat and usage by server, the servers on their grid, and the total heat."""
    return (
        Panel("Heat that the servers give off", "bars", of={"key": "server", "to": "heat"}),
        Panel("Servers where they stand: size is usage, shade is heat", "points",
              of={"x": "x", "y": "y", "size": "usage", "shade": "heat"}),
        Panel("Usage of the servers", "bars", of={"key": "server", "to": "usage"}),
        Panel("Total heat after the last step", "bars", ("total_heat",)),
    )  # fmt: skip
