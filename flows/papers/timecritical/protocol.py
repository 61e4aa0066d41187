"""Liu et al.: time-critical workloads on five clusters, Figures 3 to 5 and Tables II and III."""

from pathlib import Path
from typing import Final

from hindcast.flows.papers.publishing import protocol_of
from hindcast.flows.papers.results import Results
from hindcast.flows.papers.timecritical import figures as drawn
from hindcast.flows.papers.timecritical import tables as measured
from hindcast.flows.papers.timecritical.commands import stages
from hindcast.flows.protocols import Setting

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


PROTOCOL: Final = protocol_of(TITLE, SOURCE, stages, results)
