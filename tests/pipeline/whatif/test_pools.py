"""Tests of pools of partitions, and of conditions on jobs and times."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.whatif.pools import (
    Where,
    counts,
    labels,
    parse_pools,
    parse_times,
    parse_where,
    part,
    selected,
    split,
)  # fmt: skip
from hindcast.pipeline.whatif.record import read_record
from tests.pipeline.whatif.records import beside_traces, by_hand, record, workload

BATCH = by_hand(
    8, (0, 0, 10, 4), (1, 1, 10, 2), (2, 12, 10, 4), (9, 9, 10, 5), partition=[1, 2, 1, 2],
    user=[3, 4, 3, 4],
)  # fmt: skip
PARTITION = np.array(["batch", "debug", "batch", "debug"], object)


def test_jobs_go_to_the_pool_of_their_partition_and_wider_ones_are_left_out():
    batch, debug = split(BATCH, parse_pools("batch=4, debug=3"), PARTITION)
    assert (batch.processors, batch.row.tolist()) == (4, [0, 2])
    assert (debug.processors, debug.row.tolist()) == (3, [1])
    [both] = split(BATCH, parse_pools("batch+debug=8"), PARTITION)
    assert both.row.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch=4", "2 jobs are in no pool; name the partitions debug too"),
        ("bath=4,debug=3", "did you mean 'batch'"),
        ("batch=4,batch+debug=3", "batch has two pools"),
        ("batch=0", "expected PARTITION=PROCESSORS"),
        ("", "names no pool"),
        ("batch=4,debug=1", "no job of its partitions fits on 1 processors"),
    ],
)
def test_pools_that_do_not_cover_the_log_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        split(BATCH, parse_pools(text), PARTITION)


def test_conditions_are_read_and_unknown_ones_are_refused():
    where = parse_where(["partition=batch,user=ann+bob", "100..200"])
    assert where.names == {"partition": ("batch",), "user": ("ann", "bob")}
    assert (where.begin, where.end) == (100, 200)
    assert parse_where(["pool=a+b"]).names == {"pool": ("a+b",)}
    with pytest.raises(InputError, match="did you mean 'user=NAME'"):
        parse_where(["usr=ann"])


def test_a_partition_selects_its_pool_if_the_processors_are_known():
    pools = parse_pools("batch=4,debug+fast=3")
    assert selected(parse_where(["partition=batch"]), pools) == pools[0]
    assert selected(parse_where(["pool=debug+fast"]), pools) == pools[1]
    assert selected(parse_where(["partition=debug+fast"]), pools) == pools[1]
    assert selected(parse_where(["user=ann"]), pools) is None
    with pytest.raises(InputError, match=r"use pool=debug\+fast"):
        selected(parse_where(["partition=debug"]), pools)
    with pytest.raises(InputError, match="--pools batch=64"):
        selected(parse_where(["partition=batch"]), ())


def test_a_user_selects_who_is_counted_and_times_select_the_run():
    users = {"user": np.array(["3", "4", "3", "4"], object)}
    assert counts(parse_where(["user=3"]), users, 4).tolist() == [True, False, True, False]
    assert counts(Where(), {}, 4).all()
    with pytest.raises(InputError, match="no such job"):
        counts(parse_where(["user=5"]), users, 4)
    assert part(parse_where(["1..9"]), BATCH) == (1, 3)
    assert part(parse_where(["..9"]), BATCH) == (2, 3)
    assert part(Where(), BATCH) == (BATCH.first, 4)
    with pytest.raises(InputError, match="no job arrived"):
        part(parse_where(["20.."]), BATCH)


def test_times_are_seconds_of_the_log_or_dates_in_its_zone():
    berlin = datetime(2024, 3, 31, tzinfo=ZoneInfo("Europe/Berlin"))  # clocks go on at 02:00
    assert parse_times("10..20", "--without") == (10, 20)
    found = parse_times("2024-03-31T01:00..2024-03-31T04:00", "--without", berlin)
    assert found == (3600, 3 * 3600)
    assert parse_times("2024-03-31T00:00Z..", "--where", berlin) == (3600, None)
    for text in ("20..10", "10", "soon..later", "0001-01-01T00:00+14:00.."):
        with pytest.raises(InputError, match="--without"):
            parse_times(text, "--without", datetime(2024, 1, 1, tzinfo=UTC))
    with pytest.raises(InputError, match="when its clock began"):
        parse_times("2024-01-01..", "--without")


def test_partitions_of_a_log_are_named_by_their_numbers():
    halves = record("sdsc-halves")
    names = labels(workload("sdsc-halves"), halves, "partition")
    parts = split(halves, parse_pools("1=64,2=64"), names)
    assert [len(of.row) for of in parts] == [1389, 1563]


def test_partitions_whose_names_a_log_keeps_are_named_by_them():
    path = beside_traces("cases/logs/16-eligible-later-and-partitions.txt")
    read = FORMATS["slurm"].read(path)[0]
    names = labels(read, read_record(read), "partition")
    assert set(names.tolist()) == {"cpu", "gpu"}
