"""History files of decisions recorded elsewhere: reading, converting to a dataset, writing."""

from typing import Final

from hindcast.pipeline.recipes.workload_source import RECORDED
from hindcast.pipeline.traces import TraceFormat

TRACE_FORMAT: Final = TraceFormat(
    name=RECORDED,
    description="decisions of a data centre recorded elsewhere; ingesting makes a dataset",
    path="a JSON list of {TIME, STATE, ACTION, REWARD, NEXT_STATE}, as `thermal` exports it",
    source="your own records in the layout of the 2018 data-centre DQN report",
    terms="yours",
    citation="L. Dong, Solution on Data Center Job Scheduling Problem, 2018",
    read=None,
    recorded=f"{__name__}.importing",
)
