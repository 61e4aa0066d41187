"""Tests of the facts about a log that limit what can be said: made logs with one fault each."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads import log_caveats as lc
from hindcast.pipeline.workloads import log_units as lu
from hindcast.pipeline.workloads.log_names import names_note, names_of, number_of
from hindcast.pipeline.workloads.schema import Provenance, Workload
from tests.conftest import require_traces

HOUR = 3600.0


def log(n=1000, processors=100, notes=(), counts=None, left_out=None, **columns):
    """Return a log of n jobs of an hour on one processor, every hour, without a fault.

    `columns` replace columns, or add some.
    """
    at = np.arange(n)
    usual = {
        "job": at, "task": np.zeros(n, np.int64), "job_id": at.astype(str), "task_id": ["0"] * n,
        "submit_s": at * HOUR, "duration_s": np.full(n, HOUR), "cores": np.ones(n),
        "memory": np.zeros(n), "instances": np.ones(n, np.int64),
        "requested_s": np.full(n, 2 * HOUR), "wait_s": np.full(n, 60.0), "user": 1 + at % 5,
        "eligible_s": at * HOUR,
    }  # fmt: skip
    machines = pl.DataFrame(
        {"machine": [0], "machine_id": ["m"], "cores": [float(processors)], "memory": [1.0]}
    )
    told = Provenance(
        "made", notes=tuple(notes), counts={"rows_read": n, **(counts or {})},
        left_out=left_out or {},
    )  # fmt: skip
    return Workload(pl.DataFrame({**usual, **columns}), told, machines)


def found(workload, **options):
    """Return the caveats of a log by code."""
    caveats = lc.log_caveats(workload, **options)
    assert len({caveat.code for caveat in caveats}) == len(caveats)
    assert cv.from_json(cv.to_json(caveats)) == tuple(
        dataclasses.replace(c, numbers={k: float(v) for k, v in c.numbers.items()}) for c in caveats
    )
    return {caveat.code: caveat for caveat in caveats}


def first(n, of=1000):
    """Return a mask of the first n jobs."""
    return np.arange(of) < n


def test_a_log_without_a_fault_has_no_caveat():
    assert found(log()) == {}
    assert lc.requests_known(log())


@pytest.mark.parametrize(
    ("n", "code"),
    [(9, None), (11, "some_requests_are_run_times"), (50, "some_requests_are_run_times"),
     (51, cv.NO_LIMITS)],
)  # fmt: skip
def test_requests_that_are_run_times_rule_out_a_gain_from_a_twentieth_of_the_jobs(n, code):
    requested = np.where(first(n), HOUR, 2 * HOUR)
    told = found(log(requested_s=requested, request_unknown=first(n)))
    assert list(told) == ([code] if code else [])
    assert (code in lc.DISQUALIFYING) == (n > 50)
    assert lc.requests_known(log(requested_s=requested, request_unknown=first(n))) == (n <= 50)
    if code:
        assert told[code].numbers == pytest.approx(
            {"jobs": n, "share": n / 1000, "work_share": n / 1000}
        )


def test_of_requests_that_are_only_counted_the_share_of_the_work_is_a_bound():
    """An SWF log has a count of them alone: 100 jobs, of 200 whose request is their run time."""
    requested = np.where(first(200), HOUR, 2 * HOUR)
    told = found(log(requested_s=requested, counts={"requested_s from duration_s": 100}))
    assert "100 jobs (10% of them, at most 20% of the work)" in told[cv.NO_LIMITS].text
    assert found(log(requested_s=requested)) == {}  # these were requested


def test_a_log_of_requests_that_are_all_run_times_says_so_once():
    runs = {"requested_s": np.full(1000, HOUR)}
    noted = log(
        notes=[f"{cv.CAUTION}{cv.NO_REQUESTS}"],
        counts={"requested_s from duration_s": 1000},
        **runs,
    )
    assert found(noted)[cv.NO_LIMITS].text == cv.NO_REQUESTS
    assert not lc.requests_known(noted)
    assert found(log(**runs))[cv.NO_LIMITS].text.startswith("every time limit is the run time")
    assert not lc.requests_known(log(**runs))


@pytest.mark.parametrize(("unit", "size"), [("minutes", 60), ("hours", 3600)])
def test_limits_in_another_unit_are_found_by_the_runs(unit, size):
    """A fifth of the jobs may run longer than their limits."""
    told = found(log(requested_s=np.full(1000, 2 * HOUR / size)))
    assert told[lc.LIMITS_EXCEEDED].text == (
        "1,000 of 1,000 jobs with a time limit (100% of them, 100% of the work) ran longer than "
        f"it: is the limit in {unit}?"
    )
    assert found(log(requested_s=np.where(first(200), HOUR / 2, 2 * HOUR))) == {}
    assert lc.LIMITS_EXCEEDED in found(log(requested_s=np.where(first(201), HOUR / 2, 2 * HOUR)))


def varied(n=1000):
    """Return run times of 10 s to 28 h, and limits of at most a day that few jobs exceed."""
    rng = np.random.default_rng(5)
    run = np.round(np.exp(rng.uniform(np.log(10), np.log(24 * HOUR), n)))
    slack = 1 + rng.integers(0, 20, n) / 4
    limit = np.minimum(np.ceil(run * slack / 900) * 900, 24 * HOUR)
    return np.where(rng.random(n) < 0.05, limit + 30, run), limit


@pytest.mark.parametrize(
    ("run_size", "limit_size", "code", "question"),
    [
        (1, 1, None, ""),
        (1, 1 / 60, lc.LIMITS_EXCEEDED, "is the limit in minutes?"),
        (1, 1 / 3600, lc.LIMITS_EXCEEDED, "is the limit in hours?"),
        (1000, 1, lc.LIMITS_EXCEEDED, "is the run time in milliseconds?"),
        (1, 60, lc.LIMITS_FAR, "is the limit in seconds, or the run time in minutes?"),
        (1, 1000, lc.LIMITS_FAR, "is the limit in milliseconds?"),
        (1 / 3600, 1, lc.LIMITS_FAR, "is the run time in hours?"),
    ],
)
def test_run_times_and_limits_of_two_units_are_found(run_size, limit_size, code, question):
    """With limits as users give them: a twentieth of the jobs runs into them."""
    run, limit = varied()
    told = found(log(processors=10**6, duration_s=run * run_size, requested_s=limit * limit_size))
    assert code is None or told.pop(code).text.endswith(question)
    assert not {lc.LIMITS_EXCEEDED, lc.LIMITS_FAR, lu.LIMITS_OF_RUNS} & set(told)


REAL = ("CTC-SP2-1996-3.1-cln", "HPC2N-2002-2.2-cln", "KTH-SP2-1996-2", "SDSC-BLUE-2000-4.2-cln",
        "SDSC-SP2-1998-4.2-cln")  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("name", REAL)
def test_real_logs_have_no_caveat_until_a_column_is_multiplied(name):
    """Their limits are of all kinds: up to a tenth of the jobs runs longer than them."""
    workload = FORMATS["swf"].reading(require_traces(f"swf/{name}.swf.gz"))[0]
    assert found(workload) == {}
    for changes, code, question in (
        ({"requested_s": 1 / 60}, lc.LIMITS_EXCEEDED, "is the limit in minutes?"),
        ({"requested_s": 1 / 3600}, lc.LIMITS_EXCEEDED, "is the limit in hours?"),
        ({"duration_s": 1000}, lc.LIMITS_EXCEEDED, "is the run time in milliseconds?"),
        (
            {"requested_s": 60},
            lc.LIMITS_FAR,
            "is the limit in seconds, or the run time in minutes?",
        ),
        ({"requested_s": 1000}, lc.LIMITS_FAR, "is the limit in milliseconds?"),
        ({"duration_s": 1 / 3600}, lc.LIMITS_FAR, "is the run time in hours?"),
        (
            {"duration_s": 60, "requested_s": 60},
            lc.OVERLOADED,
            "run times are in seconds, not minutes",
        ),
        ({"duration_s": 1000, "requested_s": 1000}, lc.OVERLOADED, "run times are in milliseconds"),
        ({"submit_s": 1000, "wait_s": 1000}, lc.IDLE_BUT_WAITING, "starts in milliseconds?"),
        ({"duration_s": 1 / 60, "requested_s": 1 / 60}, lc.IDLE_BUT_WAITING, "in milliseconds?"),
    ):
        tasks = workload.tasks.with_columns(pl.col(n) * size for n, size in changes.items())
        told = found(dataclasses.replace(workload, tasks=tasks))
        assert told[code].text.endswith(question), changes


def test_one_limit_for_all_jobs_says_nothing_about_its_unit():
    """Jobs of at most 20 minutes beside the 24 hours that a queue gives by default."""
    run = np.linspace(60, 1200, 1000)
    assert found(log(duration_s=run, requested_s=np.full(1000, 24 * HOUR))) == {}


def test_limits_that_are_the_run_time_times_a_number_know_it():
    run, limit = varied()
    told = found(log(duration_s=run, requested_s=np.where(first(501), 3 * run, limit)))
    assert "have 3 times their run time as the limit" in told[lu.LIMITS_OF_RUNS].text
    assert lu.LIMITS_OF_RUNS not in lc.DISQUALIFYING
    kept = found(log(duration_s=run, requested_s=np.where(first(400), 3 * run, limit)))
    assert lu.LIMITS_OF_RUNS not in kept


@pytest.mark.parametrize(
    ("size", "unit"), [(60, "seconds, not minutes"), (1000, "in milliseconds")]
)
def test_run_times_of_another_unit_are_more_work_than_the_machine_can_do(size, unit):
    """A machine of one processor, half of which is used in the right unit."""
    long = {"duration_s": np.full(1000, HOUR / 2 * size), "requested_s": np.full(1000, HOUR * size)}
    assert found(log(processors=1, **long))["overloaded"].text.endswith(unit)
    some = np.where(first(51), 1000 * HOUR, HOUR)
    told = found(log(processors=100, duration_s=some, requested_s=2 * some))
    assert "51 jobs (5.1% of them, 98% of the work) ran longer than the 41.6 days" in (
        told[lc.RUNS_BEYOND_LOG].text
    )


def test_long_waits_on_an_idle_machine_are_of_another_unit():
    waits = {"wait_s": np.full(1000, 12 * HOUR)}
    told = found(log(processors=100, **waits))[lc.IDLE_BUT_WAITING].text
    assert "wait 12 h in the mean, 12 times as long as they run, though 1.0% of the 100" in told
    held = {"eligible_s": np.arange(1000) * HOUR + 11 * HOUR}
    assert found(log(processors=100, **waits, **held)) == {}
    assert found(log(processors=10, **waits)) == {}
    assert found(log(processors=100, wait_s=np.full(1000, 9 * HOUR))) == {}


@pytest.mark.parametrize(("size", "unit"), [(1000, "thousandths"), (100, "hundredths")])
def test_processors_of_another_unit_are_whole_hundreds(size, unit):
    cores = np.where(first(500), 1.0, 4.0) * size
    told = found(log(processors=10**6, cores=cores))[lc.CORE_UNIT].text
    assert told.endswith(f"are they in {unit} of a processor?")
    assert found(log(processors=10**6, cores=np.full(1000, 100.0))) == {}  # one size of job
    assert found(log(processors=10**6, cores=np.where(first(60), 4.0, cores))) == {}


def test_memory_of_another_unit_is_out_of_all_proportion():
    asked = {"memory_kb": np.full(1000, 2.0**22)}
    assert found(log(**asked)) == {}
    in_bytes = found(log(memory_kb=np.full(1000, 2.0**32)))[lu.MEMORY_UNIT].text
    assert in_bytes.endswith("with a median of 4.295e+09 KB a processor: is it in bytes?")
    assert "in MB or GB?" in found(log(memory_kb=np.full(1000, 64.0)))[lu.MEMORY_UNIT].text
    assert found(log(memory_kb=np.where(first(40), 64.0, 0.0))) == {}


def test_a_queue_with_a_value_for_each_job_is_none():
    """The seconds waited stand in a column `queue`."""
    waits = np.arange(1000.0)
    told = found(log(queue=waits.astype(int), wait_s=waits))[lu.TOO_MANY_NAMES].text
    assert told.startswith("queue has 1,000 values in 1,000 jobs and is the wait in 100% of them")
    users = found(log(user=np.arange(1000)))[lu.TOO_MANY_NAMES]
    assert users.numbers == {"columns": 1, "most": 1000}
    assert found(log(user=np.arange(1000) % 500, account=np.arange(1000) % 500)) == {}
    assert found(log(400, user=np.arange(400) % 200, qos=np.arange(400) % 20)) == {}
    same = {"queue": np.arange(1000) % 300, "partition": np.arange(1000) % 300}
    told = found(log(**same), pools=True)[lu.TOO_MANY_NAMES]
    assert told.text.startswith("partition has 300 values in 1,000 jobs: ")


def test_gpus_are_no_fault_where_the_machine_has_them():
    held = log(gpus=np.where(first(250), 4, 0))
    assert found(held, resources=("processors", "gpus:a100")) == {}
    assert list(found(held, resources=("processors", "memory"))) == ["gpus"]


@pytest.mark.parametrize(
    ("size", "question"),
    [(60, "minutes?"), (1e-3, "milliseconds?"), (3600, "hours?"), (17, "taken for another?")],
)
def test_run_times_that_starts_and_ends_do_not_give(size, question):
    rows = pl.DataFrame({"duration_s": np.full(100, 600.0), "run_by_ends": [600.0] * 100})
    assert lu.run_notes(rows) == []
    suspended = rows.with_columns(run_by_ends=pl.Series([4000.0] * 50 + [600.0] * 50))
    assert lu.run_notes(suspended) == []
    ends = pl.Series([600.0 * size] * 6 + [None] * 20 + [600.0] * 74)
    (note,) = lu.run_notes(rows.with_columns(run_by_ends=ends))
    assert "for 6 jobs (6.0% of them)" in note
    assert note.endswith(question)
    of_note = cv.of_provenance(Provenance("made", notes=(note,)))
    assert [caveat.code for caveat in of_note] == [cv.RUNS_AND_ENDS]


def test_unknown_waits_count_by_their_work():
    """A twentieth of the jobs may be more than a twentieth of the work."""
    wait = [None if few else 60.0 for few in first(40)]
    assert found(log(wait_s=wait))["some_unknown_waits"].numbers["jobs"] == 40
    long = found(log(wait_s=wait, duration_s=np.where(first(40), 2 * HOUR, HOUR)))
    assert "the start of 40 jobs (4.0% of them, 7.7% of the work) is unknown" in (
        long[lc.UNKNOWN_WAITS].text
    )
    assert list(found(log(wait_s=[None] * 1000))) == [cv.NO_WAIT_TIMES]
    noted = found(log(wait_s=[None] * 1000, notes=[f"{cv.NO_WAIT}: the log has no start times"]))
    assert noted[cv.NO_WAIT_TIMES].text == f"{cv.NO_WAIT}: the log has no start times"


def test_more_work_than_the_machine_can_do():
    """1,000 processor-hours in 1,000 hours; the job of two processors does not fit on one."""
    assert found(log(processors=1)) == {}
    cores = np.where(first(300), 1.0, 1.5)
    assert found(log(processors=2, cores=cores)) == {}
    told = found(log(processors=1, cores=cores))
    assert told["overloaded"].numbers["load"] == pytest.approx(1.35)
    assert told["wider_than_machine"].numbers["jobs"] == 700


def test_a_runaway_is_longer_than_its_limit_and_than_the_log():
    """A run of 1,000 days in a log of 42; one of 50 days that was asked for is none."""
    long = np.where(first(1), 24_000 * HOUR, HOUR)
    told = found(log(processors=10_000, duration_s=long))
    assert "1 job" in told["runaways"].text
    assert "job 0 for 1,000 days, 12,000 times its limit" in told["runaways"].text
    no_limit = found(
        log(processors=10_000, duration_s=long, requested_s=np.where(first(1), long, 2 * HOUR))
    )
    assert "for 1,000 days: ends" in no_limit["runaways"].text
    in_long_log = found(log(duration_s=np.where(first(1), 200 * HOUR, HOUR)))
    assert "1 job (0.1% of them, 17% of the work) ran more than a week beyond" in (
        in_long_log["runaways"].text
    )
    assert "runaways" not in found(log(duration_s=np.where(first(1), 150 * HOUR, HOUR)))
    wide = {"cores": np.where(first(1), 1.0, 64.0), "processors": 100}
    assert "runaways" not in found(log(duration_s=np.where(first(1), 200 * HOUR, HOUR), **wide))
    asked = {"requested_s": np.where(first(1), 30_000 * HOUR, 2 * HOUR)}
    assert "runaways" not in found(log(processors=10_000, duration_s=long, **asked))


def test_clusters_and_partitions_are_not_one_pool():
    cluster = np.where(first(500), 1, 2)
    note = names_note("cluster", ["alpha", "beta"])
    told = found(log(cluster=cluster, notes=[note]))[lc.CLUSTERS_POOLED].text
    assert (
        "pooled as one machine: alpha 50% of the jobs and 50% of the work, beta 50% and 50%" in told
    )
    assert found(log(partition=np.where(first(50), 2, 1))) == {}  # a twentieth of the work
    workload = log(partition=np.where(first(51), 2, 1))
    assert found(workload)[lc.PARTITIONS_POOLED].numbers["partitions"] == 2
    assert found(workload, pools=True) == {}


def test_gpus_quarantined_rows_and_few_jobs_are_counted():
    told = found(log(gpus=np.where(first(250), 4, 0)))["gpus"]
    assert told.numbers == {"jobs": 250, "share": 0.25, "work_share": 0.25, "core_hours": 250}
    assert list(found(log(gpus=np.where(first(50), 4, 0)))) == ["some_gpus"]
    for bad, codes in ((50, []), (51, ["quarantined"])):
        left_out = {"quarantined": bad, "a step of a job": 2000}
        assert list(found(log(counts={"rows_read": 3000}, left_out=left_out))) == codes
    for bad, unread in ((1500, False), (1501, True)):
        caveats = lc.log_caveats(log(counts={"rows_read": 3000}, left_out={"quarantined": bad}))
        assert lc.mostly_unread(caveats) == unread
    assert list(found(log(399))) == [lc.FEW_JOBS]
    assert found(log(400)) == {}


def test_local_times_over_a_change_of_clocks_are_an_hour_off():
    """The log begins on 1 March 2024; clocks changed on the 10th and on the 31st."""
    start = 1_709_251_200
    notes = [f"{cv.NO_ZONE}; set time_zone if not so", f"UnixStartTime: {start}"]
    told = found(log(notes=notes))["clock_change"]
    assert "in Europe on 2024-03-31, with 278 submissions after it" in told.text
    assert "in North America on 2024-03-10, with 782 submissions after it" in told.text
    assert told.numbers["jobs"] == 1000 - (9 * 24 + 2)
    assert found(log(notes=notes[1:])) == {}
    summer = [notes[0], f"UnixStartTime: {start + 91 * 86_400}"]
    assert found(log(notes=summer)) == {}


def test_how_jobs_waited_is_said():
    assert list(found(log(), fitting=0.6)) == ["waits_while_fitting"]
    assert found(log(), fitting=0.5) == {}
    assert list(found(log(wait_s=np.where(first(49), 60.0, 0.0)))) == ["hardly_any_waits"]
    assert found(log(wait_s=np.where(first(50), 60.0, 0.0))) == {}


def test_names_are_kept_in_a_note():
    workload = log(notes=[names_note("partition", ["a: b", 'c "d"'])])
    assert names_of(workload, "partition") == {1: "a: b", 2: 'c "d"'}
    assert names_of(workload, "queue") == {}
    assert "too many" in names_note("queue", [str(i) for i in range(201)])


def test_a_partition_is_found_by_its_name_or_by_the_number_of_the_log():
    partition = np.where(first(500), 1, 2)
    workload = log(partition=partition, notes=[names_note("partition", ["batch", "debug"])])
    assert number_of(workload, "partition", "debug") == 2
    assert number_of(log(partition=partition), "partition", "2") == 2
    with pytest.raises(InputError, match="did you mean 'batch'"):
        number_of(workload, "partition", "bacth")
    with pytest.raises(InputError, match="does not say the qos of its jobs"):
        number_of(workload, "qos", "high")


def missing(workload):
    """Return the sentences as one text."""
    return "\n".join(lc.missing_fields(workload))


def test_what_a_log_does_not_say_follows_from_its_columns():
    """W5, W15: the same sentences, whatever the format."""
    assert len(lc.missing_fields(log())) == 2  # partitions, and outages, which no log has
    assert "the log has one at most" in missing(log(partition=np.ones(1000, int)))
    several = missing(log(partition=1 + np.arange(1000) % 41, queue=1 + np.arange(1000) % 41))
    assert "The nodes of the 41 partitions" in several
    assert "one at most" not in several
    assert "41 queues" not in several  # they are the partitions
    assert "Limits of the 5 queues" in missing(log(queue=np.arange(1000) % 5))
    half = missing(log(wait_s=[None if few else 1.0 for few in first(500)]))
    assert "The starts of 500 jobs (50% of them, 50% of the work)" in half
    guessed = missing(log(notes=[f"{cv.CAUTION}{cv.SIZE_GUESSED} the cluster has: 3 is"]))
    assert "The size of the machine" in guessed
    sized = found(log(notes=[f"{cv.CAUTION}{cv.SIZE_GUESSED} the cluster has: 3 is"]))
    assert sized[cv.NO_CLUSTER_SIZE].numbers == {"processors": 100}
    assert "The GPUs of the machine: 10 jobs" in missing(log(gpus=np.where(first(10), 1, 0)))
    bare = log(user=pl.Series([None] * 1000, dtype=pl.Int64), requested_s=np.full(1000, HOUR))
    assert "Users: without them" in missing(bare)
    assert "Requested times: without them" in missing(bare)
