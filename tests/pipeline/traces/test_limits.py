"""Whatever a reader makes of a trace can be ingested and loaded again."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.ingest import ingest
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.pipeline.workloads.schema import damage
from tests.pipeline.traces import test_pbs, test_slurm
from tests.pipeline.traces.test_alibaba2017 import jobs, written
from tests.pipeline.traces.test_azure2020 import database
from tests.pipeline.traces.test_swf import log, row

NUMBERS = (-1e300, -1e16, -400.0, -1, -0.5, 0, 1e-320, 0.5, 1, 7, 400.0, 1e9, 1e16, 1e300, 2**53)
VALUES = st.sampled_from(NUMBERS)


def azure_table(folder: Path, *values: float) -> Path:
    cores, memory, duration, start = values
    bad = f"b,{cores},{memory},0,{duration},{start}"
    return written(folder, "t.csv", f"a,1,0.5,0,1000,5\n{bad}\n")


def batch_task(folder: Path, *values: float) -> Path:
    begin, end, count, cpu, memory = values
    row = f"{begin},{end},1,2,{count},Terminated,{cpu},{memory}\n"
    return written(folder, "batch_task.csv", f"10,30,1,1,4,Terminated,50,0.01\n{row}")


def server_event(folder: Path, *values: float) -> Path:
    time, cpu, memory = values
    written(folder, "server_event.csv", f"0,1,add,,64,0.7,1\n{time},2,add,,{cpu},{memory},1\n")
    return jobs(folder, "0,5,1,1.0,0.1,7,3,2,0")


# format -> number of values, and a function that writes a trace with a row of them
TRACES = {
    "swf": (5, lambda folder, submit, run, cores, memory, limit: log(
        folder, row(1), row(2, submit=submit, run=run, asked=cores, wanted=memory, limit=limit))),
    "slurm": (5, lambda folder, submit, start, run, cores, limit: test_slurm.log(
        folder, test_slurm.row("1"), test_slurm.row(
            "2", Submit=submit, Start=start, ElapsedRaw=run, AllocCPUS=cores,
            TimelimitRaw=limit))),
    "pbs": (4, lambda folder, submit, start, end, cores: test_pbs.log(
        folder, test_pbs.record("1"), test_pbs.record(
            "2", qtime=submit, start=start, end=end, resources_used_ncpus=cores))),
    "azure2020 table": (4, azure_table),
    "azure2020 database": (2, lambda folder, begin, end: database(
        folder / f"{begin},{end}.sqlite", (6, 1, 1, 0, 0, 1), (7, 1, 1, 0, begin, end))),
    "alibaba2017 jobs": (5, lambda folder, submit, duration, cpu, memory, count: jobs(
        folder, "0,5,1,1.0,0.1,7,3,2,0", f"1,{submit},{duration},{cpu},{memory},8,1,{count},0")),
    "alibaba2017 batch_task": (5, batch_task),
    "alibaba2017 server_event": (3, server_event),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_every_workload_of_a_reader_is_sound(name, data, tmp_path):
    count, write = TRACES[name]
    values = data.draw(st.tuples(*[VALUES] * count))
    for old in tmp_path.iterdir():
        old.unlink()
    workload, quarantine = FORMATS[name.split()[0]].read(write(tmp_path, *values))
    assert damage(workload.tasks, workload.machines) is None
    assert workload.tasks.height + quarantine.height <= 3


def test_rows_before_time_0_are_kept_on_the_clock_of_the_trace(tmp_path):
    """VMs that run at the start of the Azure trace were created before; Alibaba has such tasks."""
    vms = database(tmp_path / "a.sqlite", (7, 1, 1, 0, -2.0, 3.0), (8, 1, 1, 0, 1.0, 2.0))
    tasks = written(tmp_path, "batch_task.csv", "-50,30,1,1,4,Terminated,50,0.01\n")
    for form, path, first in (("azure2020", vms, -172_800.0), ("alibaba2017", tasks, -50.0)):
        assert ingest(form, path, tmp_path / form).quarantined == 0
        assert load_workload(tmp_path / form).tasks["submit_s"][0] == first


def test_without_any_memory_the_shares_are_0_not_nan(tmp_path):
    path = written(tmp_path, "t.csv", "a,1,0,0,1000,5\n")
    assert FORMATS["azure2020"].read(path)[0].tasks["memory"].to_list() == [0.0]


def test_what_only_the_whole_table_shows_is_refused_before_it_is_written(tmp_path):
    rows = [f"{n},5,1,1.0,0.1,{n},1,{10**15},0" for n in range(2)]
    with pytest.raises(TraceError, match=r"jobs\.csv: .*the sum of the instances is above 1e\+15"):
        ingest("alibaba2017", jobs(tmp_path, *rows), tmp_path / "out")
    assert not (tmp_path / "out").exists()
