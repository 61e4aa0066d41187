"""Liu et al.: time-critical workloads on five clusters, Figures 3 to 5 and Tables II and III."""

from pathlib import Path
from typing import Final

from hindcast.flows.papers import Setting
from hindcast.flows.papers.timecritical import figures as drawn
from hindcast.flows.papers.timecritical import tables as measured
from hindcast.flows.papers.timecritical.commands import stages
from hindcast.pipeline.papers.results import Results

TITLE: Final = "Time-critical workloads (Liu et al.)"
SOURCE: Final = (
    "Liu, Zhang, Rao, Wang, A Reinforcement Learning Based Resource Management Approach for "
    "Time-critical Workloads in Distributed Computing Environment"
)


def results(place: Path, setting: Setting) -> Results:
    """Return tables, figures and claims from what the commands wrote below `place`.

    Raises DatasetError for a file that is missing or does not fit.
    """
    tables, table_texts = measured.tables(place)
    figures, figure_texts = drawn.figures(place, setting)
    claims = measured.claims(place)
    return Results(tables, table_texts, figures, figure_texts, claims)


__all__ = ["SOURCE", "TITLE", "results", "stages"]
