"""Tests of the file of a schedule: what is written is read, and what is damaged is refused."""

import json

import polars as pl
import pytest

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.schedules.schedule import (
    FACTS,
    make_schedule,
    read_schedule,
    write_schedule,
)

_FACTS = {
    "policy": "fcfs", "scenario": "queue", "source": {"log": "a.swf", "digest": "0" * 64},
    "window": 3, "seed": None, "capacity": {"processors": 4, "gpus": 2},
    "per_unit": {"processors": 1, "gpus": 1}, "unit": "processors", "levels": {}, "machines": {},
    "machine": None, "clock": "s", "from_s": 0.0, "to_s": 9.5, "epoch": None,
}  # fmt: skip
_JOBS = pl.DataFrame({
    "job": [7, 9], "name": ["<script>", None], "submit_s": [-3, 1], "eligible_s": [0, 1],
    "start_s": [0.5, None], "end_s": [9.5, None], "processors": [3, 4], "gpus": [2, 0],
    "user": ["u1", None], "machine": [[0, 2], None], "counted": [True, False],
    "wait_s": [0.5, None], "bounded_slowdown": [1.0, None],
})  # fmt: skip


def test_a_schedule_is_read_as_it_was_written(tmp_path):
    schedule = make_schedule(_JOBS, _FACTS)
    paths = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for path in paths:
        write_schedule(schedule, path)
    found = read_schedule(paths[0])
    assert found.jobs.equals(schedule.jobs, null_equal=True)
    assert found.facts == _FACTS
    assert found.resources == ("processors", "gpus")
    assert list(found.jobs.columns[7:10]) == ["processors", "gpus", "requested_s"]
    assert found.jobs["account"].null_count() == 2
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("jobs", "facts", "says"),
    [
        (_JOBS.with_columns(end_s=pl.lit(None)), {}, "has one of start_s and end_s"),
        (_JOBS.with_columns(end_s=pl.col("start_s") - 1), {}, "ends before its start"),
        (_JOBS.with_columns(submit_s=pl.lit(float("nan"))), {}, "not finite"),
        (_JOBS.with_columns(counted=pl.lit(None)), {}, "counted has a missing value"),
        (_JOBS.with_columns(processors=-1), {}, "less than 0"),
        (_JOBS, {"from_s": "0"}, "from_s is '0', expected a number"),
        (_JOBS, {"capacity": {"gpus": 1, "processors": 2}}, "first resource"),
        (
            _JOBS,
            {"capacity": {"processors": 1}, "per_unit": {"processors": 1}},
            "column gpus is Int64, expected none",
        ),
        (_JOBS, {"per_unit": {"processors": 0, "gpus": 1}}, "per_unit is not a number from 1 on"),
        (_JOBS, {"machines": {"memory": [1]}}, "machines are not of the resources of capacity"),
        (_JOBS, {"epoch": 1e18}, "a moment is farther than"),
        (_JOBS, {"epoch": -1e11}, "epoch is -1e.11, which gives dates before the year 69"),
        (_JOBS.with_columns(submit_s=pl.lit(1e18)), {}, "a time is out of range"),
        (_JOBS, {"levels": {"processors": [["x", 1]]}}, "levels begin at 'x'"),
        (_JOBS, {"source": {"recipes": "x"}}, "expected recipe, log and digest"),
    ],
)
def test_a_damaged_schedule_is_refused_by_what_is_wrong(tmp_path, jobs, facts, says):
    path = tmp_path / "a.parquet"
    whole = make_schedule(jobs, _FACTS).jobs
    whole.write_parquet(path, metadata={FACTS: json.dumps({**_FACTS, **facts})})
    with pytest.raises(DatasetError, match=says) as raised:
        read_schedule(path)
    assert str(raised.value).startswith(str(path))


def test_a_fact_that_is_missing_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    facts = {name: of for name, of in _FACTS.items() if name != "clock"}
    make_schedule(_JOBS, _FACTS).jobs.write_parquet(path, metadata={FACTS: json.dumps(facts)})
    with pytest.raises(DatasetError, match="'clock' is missing"):
        read_schedule(path)


def test_a_table_that_is_no_schedule_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    _JOBS.write_parquet(path)
    with pytest.raises(DatasetError, match=r"no facts of a schedule .* `hindcast schedule`"):
        read_schedule(path)
