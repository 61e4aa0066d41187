"""Numbers of the RLScheduler paper's Tables V and VI, as its repository prints them.

Source: README.md of github.com/DIR-LAB/deep-batch-scheduler, which names them so; means of ten
sequences of 1,024 jobs, columns FCFS, WFP3, UNI, SJF, F1 and RL. The rows of its columns WFP3 and
UNI belong to the rules `wfp` and `uni` here, whose signs are turned.
"""

from collections.abc import Mapping
from typing import Final

from hindcast.flows.papers.published import published

PAPER: Final = "rlscheduler"
BOUNDED_SLOWDOWN: Final = "table 5"
UTILISATION: Final = "table 6"

POLICIES: Final = ("fcfs", "wfp", "uni", "sjf", "f1", "paper_agent")
TRACES: Final[Mapping[str, str]] = {  # names in the tables
    "lublin_256": "Lublin-1",
    "SDSC-SP2": "SDSC-SP2",
    "HPC2N": "HPC2N",
    "lublin_256_new2": "Lublin-2",
}
# (trace, backfilling) -> row of the tables, in their order
SETTINGS: Final[Mapping[tuple[str, bool], str]] = {
    (trace, backfill): name + (", backfilling" if backfill else "")
    for backfill in (False, True)
    for trace, name in TRACES.items()
}


def printed(item: str) -> dict[tuple[str, str], float]:
    """Return the numbers of a table by row and policy."""
    rows = published(PAPER).filter(item=item)
    return dict(zip(zip(rows["row"], rows["column"], strict=True), rows["value"], strict=True))
