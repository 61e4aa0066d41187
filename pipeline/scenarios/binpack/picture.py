"""Picture of `binpack`: what is free on the machines that can take an instance."""

from hindcast.pipeline.simulation.picture import Panel
from hindcast.pipeline.simulation.spec import Spec


def picture(_spec: Spec) -> tuple[Panel, ...]:
    """Return a bar of free cores and of free memory for every machine of a candidate."""
    return tuple(
        Panel(
            f"Free {name} of the machines of the candidates, of the largest machine",
            "bars",
            of={"key": "machine", "to": f"free_{name}", "taken": name},
            full=f"machine_{name}",
        )
        for name in ("cores", "memory")
    )
