"""Picture of `slots`: the slots that are free ahead, and the jobs that wait."""

from hindcast.pipeline.simulation.picture import Panel
from hindcast.pipeline.simulation.spec import Spec


def picture(spec: Spec) -> tuple[Panel, ...]:
    """Return the free slots by time step ahead, the visible jobs by resource, and the backlog."""
    names = [feature.name for feature in spec.context]
    ahead = {
        resource: tuple(name for name in names if name.startswith(f"free_{resource}_"))
        for resource in ("cpu", "memory")
    }
    return (
        *(
            Panel(f"Free {resource} slots, from now to the horizon", "line", features)
            for resource, features in ahead.items()
        ),
        *(
            Panel(
                f"Visible jobs: length across, {resource} slots down",
                "bars",
                of={"to": "length", "thick": resource},
            )
            for resource in ahead
        ),
        Panel("Backlog", "bars", ("backlog",)),
    )
