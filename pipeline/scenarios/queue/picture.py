"""Picture of `queue`: what is free on the machine, and the jobs that wait."""

from hindcast.pipeline.simulation.picture import Panel
from hindcast.pipeline.simulation.spec import Spec


def picture(spec: Spec) -> tuple[Panel, ...]:
    """Return free resources, what stays free beside the reservation, and the waiting jobs."""
    names = [feature.name for feature in spec.context]
    free = tuple(name for name in names if name.split("_")[0] in {"free", "spare"})
    return (
        Panel("Share of the machine that is free now, and beside the reservation", "bars", free),
        Panel("Waiting jobs: requested time across (ln s), share of the machine down", "bars",
              of={"to": "log_requested", "thick": "share_of_machine"}),
        Panel("Waiting jobs: ln(60 + seconds waited) across, share of the machine down", "bars",
              of={"to": "log_waited", "thick": "share_of_machine"}),
    )  # fmt: skip
