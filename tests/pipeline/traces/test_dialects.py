"""The same jobs in each dialect are the same workload, as far as the dialect holds their fields."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.recognition import recognise
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.workloads.log_names import remembered_names
from tests.pipeline.traces.dialects import COLUMNS, DIALECTS, NAMES, made_jobs, truth, written

# Dialects whose exit status does not tell who ended a job.
STATUS_WITHOUT_CANCELLED = {"PBS", "Grid Engine", "Grid Engine, JSON", "qacct -j", "Cobalt"}


def named(tasks, names):
    """Return the tasks with names in place of numbers, digits where the log numbers them itself."""
    for column in NAMES:
        if column in names and column in tasks.columns:
            numbers = pl.Series(range(1, len(names[column]) + 1), dtype=pl.Int64)
            values = pl.Series(names[column], dtype=pl.String)
            column_ = tasks[column].replace_strict(numbers, values, default=None)
            tasks = tasks.with_columns(column_.alias(column))
    return tasks


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", DIALECTS)
def test_a_log_in_each_dialect_is_one_workload(name, seed, tmp_path):
    dialect, jobs = DIALECTS[name], made_jobs(np.random.default_rng(seed))
    path = written(dialect, jobs, tmp_path)
    assert recognise(path) == dialect.form
    with remembered_names() as names:
        workload, quarantine = FORMATS[dialect.form].reading(path, dialect.settings)
    assert quarantine.is_empty()
    read, wanted = named(workload.tasks, names), truth(jobs)
    wanted = wanted.with_columns(
        job_id=pl.Series([dialect.job_name.format(i) for i in wanted["job_id"]]),
        **{of: pl.col(source) for of, source in dialect.taken.items()},
    )
    if dialect.form == "lsf":  # 0 is unknown there
        later = pl.col("eligible_s") > pl.col("submit_s")
        wanted = wanted.with_columns(eligible_s=pl.when(later).then("eligible_s"))
    if name in STATUS_WITHOUT_CANCELLED:
        wanted = wanted.with_columns(status=pl.when(pl.col("status") == 1).then(1).otherwise(0))
    for field in dialect.holds:
        for column in COLUMNS.get(field, (field,)):
            if column == "memory_mib" and dialect.form == "swf":
                continue
            values = wanted[column]
            if column in NAMES and column not in names:
                values = values.str.extract(r"(\d+)$").cast(pl.Int64)
            assert read[column].to_list() == values.to_list(), column
    for field in {*COLUMNS, *NAMES} - {*dialect.holds}:
        for column in COLUMNS.get(field, (field,)):
            assert column not in read.columns or read[column].is_null().all(), column


@pytest.mark.slow
def test_every_field_is_held_by_some_dialect_and_every_job_log_has_the_same_first_columns(tmp_path):
    assert {field for of in DIALECTS.values() for field in of.holds} == {*COLUMNS, *NAMES}
    jobs, columns = made_jobs(np.random.default_rng(3), 20), set()
    for name, dialect in DIALECTS.items():
        if dialect.form != "swf":
            folder = tmp_path / name.replace(" ", "-")
            folder.mkdir()
            path = written(dialect, jobs, folder)
            tasks = FORMATS[dialect.form].reading(path, dialect.settings)[0].tasks
            columns.add(tuple(tasks.columns[: tasks.columns.index("eligible_s") + 1]))
    assert len(columns) == 1


@pytest.mark.parametrize(
    "name", [name for name, of in DIALECTS.items() if of.form not in {"swf", "table"}]
)
def test_an_unknown_time_zone_is_refused_by_every_reader(name, tmp_path):
    form = FORMATS[DIALECTS[name].form]
    settings = replace(DIALECTS[name].settings or form.settings(), time_zone="Mars")
    path = written(DIALECTS[name], made_jobs(np.random.default_rng(4), 3), tmp_path)
    with pytest.raises(TraceError, match="there is no time zone 'Mars'"):
        form.reading(path, settings)


def test_the_page_says_which_fields_each_dialect_holds():
    page = Path(__file__).parents[3] / "docs/how-to/export-a-log.md"
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.read_text("utf-8").splitlines()
        if line.count("|") == 10
    ]
    systems, marks = rows[0][1:], {}
    for first, *cells in rows[2:]:
        for field in re.findall(r"`(\w+)`", first) or [first]:
            marks[field] = {s for s, cell in zip(systems, cells, strict=True) if cell == "x"}
    of = {"Slurm": "sacct -P"}
    for system in systems:
        name = of.get(system, system)
        held = {field for field in marks if system in marks[field]}
        wanted = {field for field in marks if field in DIALECTS[name].holds}
        if name not in STATUS_WITHOUT_CANCELLED:
            wanted.add("cancelled")
        assert held == wanted, system
