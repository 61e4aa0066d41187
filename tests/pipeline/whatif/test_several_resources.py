"""Runs on machines with GPUs and memory: golden starts, a plain event loop, grades and worlds."""

import csv
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.whatif.grade import SEVERAL, grade
from hindcast.pipeline.whatif.measures import measure
from hindcast.pipeline.whatif.orders import ALL, STRICT, Mode, order_of, policy_of
from hindcast.pipeline.whatif.outcomes import counted, lower_bounds_of, outcomes, wide_of
from hindcast.pipeline.whatif.playing import play, play_placed
from hindcast.pipeline.whatif.pools import labels, parse_pools, split
from hindcast.pipeline.whatif.record import Record, read_record
from hindcast.pipeline.whatif.replay import replay, replay_placed
from hindcast.pipeline.whatif.resources.amounts import Resources
from hindcast.pipeline.whatif.resources.capacities import (
    on_machine,
    parse_capacities,
    width_cautions,
    with_resources,
)
from hindcast.pipeline.whatif.run import joined, run_of
from hindcast.pipeline.whatif.worlds import changed, read_change
from tests.conftest import require_traces
from tests.pipeline.whatif.records import by_hand
from tests.pipeline.whatif.test_playing import simulated
from tests.resource_logs import golden_jobs, golden_settings, plain_schedule, workload_of

POLICIES = ("fcfs_easy", "sjf_easy", "saf_easy", "lxf_easy", "conservative")
_OF_SUMMARY = ("counted", "mean_wait_s", "max_wait_s", "mean_bounded_slowdown")


def machines_of(workload, processors: dict[str, int], capacities) -> list[Record]:
    """Return the records of the machines of a log: one, named "", or pools."""
    record, _ = with_resources(read_record(workload), workload, capacities)
    if "" not in processors:
        pools = parse_pools(",".join(f"{name}={n}" for name, n in processors.items()))
        return list(split(record, pools, labels(workload, record, "partition"), capacities))
    return [on_machine(record, record.processors, capacities[""])] if capacities else [record]


@pytest.mark.parametrize("world", ["processors", "gpus", "types", "pools"])
def test_golden_starts_types_means_utilisations_and_bounds(world):
    folder = require_traces("../golden/resources")
    jobs, settings = golden_jobs(folder), golden_settings(folder, world)
    number, first = [job["job"] for job in jobs], -min(job["submit"] for job in jobs)
    of_pools = settings.get("pools") or {"": settings["capacity"]}
    capacities = {
        pool: {name: of[name] for name in settings["resources"][1:]}
        for pool, of in of_pools.items() if len(of) > 1
    }  # fmt: skip
    processors = {pool: of["processors"] for pool, of in of_pools.items()}
    records = machines_of(workload_of(jobs, 100), processors, capacities)
    runs = []
    for record in records:
        run = run_of(record, int(np.searchsorted(record.arrive, first)), now=first)
        wide = record.too_wide
        rows = record.row if wide is None else np.concatenate([record.row, wide.row])
        runs.append((run, rows[run.row]))
    together, place = joined([run for run, _ in runs])
    rows = np.concatenate([row for _, row in runs])[place]
    golden = pl.read_csv(folder / f"starts_{world}.csv", infer_schema_length=None)
    with (folder / "summary.csv").open() as file:
        summary = {row["policy"]: row for row in csv.DictReader(file) if row["world"] == world}
    for policy in POLICIES:
        played = [play_placed(run, *policy_of(policy)) for run, _ in runs]
        start, kind = (np.concatenate(of)[place] for of in zip(*played, strict=True))
        expected = dict(zip(golden["job"], golden[policy], strict=True))
        found = {number[row]: s - first for row, s in zip(rows, start.tolist(), strict=True)}
        assert found == expected
        wanted = {name: float(of) for name, of in summary[policy].items() if _is_number(of)}
        wide = np.concatenate([wide_of(run) for run, _ in runs])[place]
        values = outcomes(together, start, kind, wide)
        if capacities:
            values |= lower_bounds_of([run for run, _ in runs])
            assert {n for n in wanted if "utilisation" in n or "bound" in n} <= values.keys()
        for name in wanted.keys() & values.keys():
            assert values[name] == pytest.approx(wanted[name], rel=1e-9, abs=1e-9), name
        if world == "types":
            names = dict(zip(golden["job"], golden[f"{policy}_type"], strict=True))
            any_type = together.asks[:, -1] > 0
            assert any_type.sum() > 400
            for row, of in zip(rows[any_type], kind[any_type], strict=True):
                assert together.resources.names[of] == f"gpus:{names[number[row]]}"


def _is_number(text: str) -> bool:
    return text[:1].isdigit()


def drawn(seed: int, jobs: int = 120) -> tuple[list[dict], dict[str, int]]:
    """Return jobs that ask for processors, two types of GPUs, any type, and memory."""
    rng = np.random.default_rng(seed)
    found = []
    for submit in np.sort(rng.integers(0, 3000, jobs) // 10 * 10).tolist():
        run = int(rng.integers(1, 30) * rng.choice([1, 10]))
        named, of_any = int(rng.choice([0, 0, 1, 2])), int(rng.choice([0, 0, 0, 1, 2]))
        kind = str(rng.choice(["a", "b"]))
        found.append({
            "submit": submit, "run": run, "requested": int(-(-run * rng.choice([1, 2, 5]) // 1)),
            "processors": int(rng.choice([1, 1, 2, 4])), "gpus": named + of_any,
            "types": {kind: named} if named else {}, "memory": int(rng.choice([0, 100, 400, 900])),
            "user": int(rng.integers(0, 4)), "start": submit + 5,
        })  # fmt: skip
    found[0]["types"], found[0]["gpus"] = {"a": 1, "b": 1}, 2
    return found, {"gpus:a": 3, "gpus:b": 2, "memory": 1500}


KEYS = {
    "fcfs": lambda job, t: (-job["submit"],),
    "sjf": lambda job, t: -job["requested"],
    "saf": lambda job, t: -job["area"],
    "lxf": lambda job, t: (t - job["submit"] + job["requested"]) / job["requested"],
}


@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("policy", "form"),
    [
        ("fcfs_easy", "easy"), ("sjf_easy", "easy"), ("saf_easy", "easy"), ("lxf_easy", "easy"),
        ("saf", "strict"), ("sjf_greedy", "greedy"), ("conservative", "conservative"),
        ("saf_clairvoyant", "clairvoyant"),
    ],
)  # fmt: skip
def test_a_plain_event_loop_starts_every_job_in_the_same_second(policy, form, seed):
    jobs, capacity = drawn(seed)
    workload = workload_of(jobs, 8)
    (record,) = machines_of(workload, {"": 8}, {"": capacity})
    run = run_of(record, 40)
    assert run.running > 0
    resources, plain = run.resources, []
    milli = [max(-(-1000 * a * 8 // c) for a, c in zip(row[:-1], resources.capacity, strict=True))
             for row in run.asks.tolist()]  # fmt: skip
    types = [1, 2]
    for i in range(len(run.row)):
        row = run.asks[i].tolist()
        if row[-1]:
            milli[i] = min(
                max(milli[i], -(-1000 * (row[k] + row[-1]) * 8 // int(resources.capacity[k])))
                for k in types if row[k] + row[-1] <= resources.capacity[k]
            )  # fmt: skip
        requested = int(run.run[i] if form == "clairvoyant" and i >= run.running
                        else run.requested[i])  # fmt: skip
        plain.append({
            "number": i, "submit": int(run.arrive[i]), "run": int(run.run[i]),
            "requested": requested, "ask": row[:-1], "any": row[-1],
            "area": requested * milli[i],
            "start": int(run.start[i]) if i < run.running else None,
        })  # fmt: skip
    key = KEYS[policy.partition("_")[0]] if form != "conservative" else KEYS["fcfs"]
    found = plain_schedule(
        plain, resources.capacity.tolist(), types, key, "easy" if form == "clairvoyant" else form,
        run.now,
    )  # fmt: skip
    starts, kinds = play_placed(run, *policy_of(policy))
    begun = starts != NEVER
    assert begun.sum() >= run.counted.sum() > 60
    assert starts[begun].tolist() == [found[i][0] for i in np.flatnonzero(begun)]
    for i in np.flatnonzero(begun & (run.asks[:, -1] > 0)):
        taken = run.asks[i, :-1].copy()
        taken[kinds[i]] += run.asks[i, -1]
        assert taken.tolist() == found[i][1]


@pytest.mark.parametrize("policy", [
    "aged_area_easy", "aged_expected_easy", "sapf", "f1_greedy", "lxf_clairvoyant", "conservative",
])  # fmt: skip
def test_scenario_queue_starts_every_job_in_the_same_second(policy):
    jobs, capacity = drawn(6, 150)
    jobs[10]["memory"], jobs[39]["gpus"], jobs[39]["run"] = 9000, 9, 900  # too wide; one runs
    workload = workload_of(jobs, 8)
    (record,) = machines_of(workload, {"": 8}, {"": capacity})
    run = run_of(record, 45)
    assert len(record.too_wide.row) >= 2
    assert (run.row[: run.running] >= len(record.row)).any()
    names = ("processors", "gpus:a", "gpus:b", "memory")
    config = QueueConfig(
        jobs=100, starts=(45,), whole=True, resources=names, capacity=capacity,
        allow_wait=policy_of(policy)[1] == STRICT, run_times="expected" in policy,
    )  # fmt: skip
    starts, kinds = play_placed(run, *policy_of(policy))
    waits, outcome, _ = simulated(policy, config, workload)
    assert counted(run, starts).wait.tolist() == waits.tolist()
    values = outcomes(run, starts, kinds)
    for name in ("mean_slowdown_wide", *(f"utilisation_{name}" for name in names[1:])):
        assert values[name] == pytest.approx(outcome[name], rel=1e-12), name


def unused(record: Record) -> Record:
    """Return a record whose machine has GPUs and memory that no job asks for."""
    names = ("processors", "gpus", "memory")
    resources = Resources(names, np.array([record.processors, 4, 1000]), np.ones(3, np.int64))
    asks = np.zeros((len(record.row), 4), np.int64)
    asks[:, 0] = record.cpu
    return replace(record, resources=resources, asks=asks)


@pytest.mark.parametrize("policy", [
    "saf_easy", "lxf_easy", "wfp3_greedy", "aged_area_easy", "aged_expected_easy", "wsept",
    "fcfs_easy_sjbf", "f1_easy", "conservative", "sjf_clairvoyant", "balanced_area_easy",
])  # fmt: skip
def test_resources_that_nobody_asks_for_change_no_start(policy):
    jobs, _ = drawn(7, 200)
    record = read_record(workload_of(jobs, 8))
    order, mode = policy_of(policy)
    modes = [mode, Mode(ALL), Mode(2, 5), Mode(1, 3)] if policy == "saf_easy" else [mode]
    for one in modes:
        alone, other = (play(run_of(of, 50), order, one) for of in (record, unused(record)))
        assert alone.tolist() == other.tolist()
    assert replay(run_of(unused(record), 50)).late == replay(run_of(record, 50)).late


def test_depth_1_starts_nobody_behind_the_head_and_many_reservations_are_all():
    jobs, capacity = drawn(3, 400)
    (record,) = machines_of(workload_of(jobs, 8), {"": 8}, {"": capacity})
    run, order = run_of(record, 40), order_of("lxf")
    assert play(run, order, Mode(1, 1)).tolist() == play(run, order, Mode(0)).tolist()
    assert play(run, order, Mode(10**6)).tolist() == play(run, order, Mode(ALL)).tolist()
    assert play(run, order, Mode(2)).tolist() != play(run, order, Mode(ALL)).tolist()


def on_gpus(record: Record, gpus: list[int], capacity: int, memory=None) -> Record:
    """Return a record on a machine with GPUs, and with 100 MiB if jobs ask for memory."""
    columns = [record.cpu, gpus] + ([] if memory is None else [memory])
    names = ("processors", "gpus", "memory")[: len(columns)]
    most = np.array([record.processors, capacity, 100])[: len(columns)]
    asks = np.column_stack([*columns, np.zeros(len(gpus), np.int64)]).astype(np.int64)
    return replace(record, resources=Resources(names, most, np.ones_like(most)), asks=asks)


def test_waiting_is_split_by_the_resource_that_alone_stops_the_job():
    # The first job holds 3 of 4 processors and all GPUs until 100.
    record = on_gpus(
        by_hand(
            4, (0, 0, 100, 3), (10, 100, 5, 1), (20, 100, 5, 2), (30, 105, 5, 4), (50, 60, 5, 1)
        ),
        [2, 1, 0, 1, 0], 2,
    )  # fmt: skip
    sums = measure(record)
    # GPUs alone stop the second job, and both do while the last one runs, from 60 to 65.
    # Processors alone stop the third for 80 s and the fourth from 100 on, which both stop before.
    # The last one fitted for 10 s.
    assert sums.stopped.tolist() == [80 + 5, 90 - 5, 0, 70 + 5]
    assert sums.waiting == 90 + 80 + 75 + 10
    assert sums.fitting == 10
    of = grade([record])
    assert of.stopped == {
        "processors": 85 / 255, "gpus": 85 / 255, SEVERAL: 75 / 255,
    }  # fmt: skip


def test_over_is_that_of_the_worst_resource_and_twins_are_equal_in_every_ask():
    jobs = [(0, 0, 100, 1), (0, 0, 100, 1), (200, 205, 10, 1), (201, 203, 10, 1)]
    record = on_gpus(by_hand(4, *jobs), [2, 1, 1, 0], 2)
    of = grade([record])
    assert of.over == {"processors": 0.0, "gpus": 100 / 300}
    assert of.worst == "gpus"
    assert of.numbers["over"] == 100 / 300
    assert measure(record).twins == 0
    same = on_gpus(by_hand(4, *jobs), [2, 1, 1, 1], 2)
    assert (measure(same).twins, measure(same).passed) == (1, 1)


@pytest.mark.slow
def test_the_right_scheduler_of_a_log_with_gpus_is_known_and_its_machine_has_grade_a():
    jobs, _ = drawn(5, 600)
    for i, job in enumerate(jobs):
        job["submit"] = 12 * i
        job["types"], job["gpus"] = {}, job["gpus"]
    capacity = {"": {"gpus": 4, "memory": 1500}}
    (record,) = machines_of(workload_of(jobs, 8), {"": 8}, capacity)
    for name in ("fcfs_easy", "saf_easy"):
        starts = play(run_of(record, 0, warm=False), *policy_of(name))
        of = grade([replace(record, start=starts)])
        assert of.letter == "A"
        assert [of.numbers[n] for n in ("over", "open", "passed", "odd")] == [0, 0, 0, 0]
        assert of.known == name.replace("_", " ")
        without = grade([replace(record, start=starts, resources=None)])
        assert without.known is None
        again = replay_placed(run_of(replace(record, start=starts), 300))[0]
        assert again.tolist() == starts[run_of(replace(record, start=starts), 300).row].tolist()


def test_a_resource_below_zero_stops_no_job_that_does_not_ask_for_it():
    # Two jobs hold 4 of 2 GPUs when the run begins; the third asks for none and starts at once.
    record = on_gpus(
        by_hand(8, (0, 0, 100, 1), (0, 0, 60, 1), (10, 10, 5, 4), (11, 100, 5, 1)), [2, 2, 0, 1], 2
    )
    run = run_of(record, 2)
    assert play(run, *policy_of("fcfs_easy")).tolist() == [0, 0, 10, 100]


def test_jobs_that_are_too_wide_run_at_the_beginning_and_never_arrive():
    record = on_gpus(
        by_hand(8, (0, 0, 100, 1), (1, 1, 5, 1), (10, 20, 5, 1), (11, 11, 5, 1)), [3, 0, 3, 1], 2
    )
    machine = on_machine(record, 8, {"gpus": 2})
    assert machine.row.tolist() == [1, 3]
    run = run_of(machine, 1)
    assert (run.running, run.row.tolist(), run.asks[:, 1].tolist()) == (1, [2, 1], [3, 1])
    assert play(run, *policy_of("fcfs_easy")).tolist() == [0, 100]
    (caution,) = width_cautions([machine])
    assert caution.text.startswith("2 jobs (91% of the work) ask for more gpus than")


def test_changed_amounts_remove_the_jobs_that_no_longer_fit():
    jobs, capacity = drawn(1)
    (record,) = machines_of(workload_of(jobs, 8), {"": 8}, {"": capacity})
    run = run_of(record, 40)
    worlds = {
        text: changed(read_change(text), record, run)
        for text in ("gpus=+50%", "gpus:b=-1", "memory=+1GiB", "memory=-50%", "processors=+4")
    }
    amounts = {text: world.run.resources.capacity.tolist() for text, world in worlds.items()}
    assert amounts == {
        "gpus=+50%": [8, 5, 3, 1500], "gpus:b=-1": [8, 3, 1, 1500],
        "memory=+1GiB": [8, 3, 2, 2524], "memory=-50%": [8, 3, 2, 750],
        "processors=+4": [12, 3, 2, 1500],
    }  # fmt: skip
    assert worlds["memory=-50%"].removed == int((run.asks[run.counted, 3] > 750).sum()) > 0
    assert worlds["processors=+4"].run.processors == 12
    assert worlds["gpus=+50%"].removed == 0
    for text, told in {
        "gpus=+1": "the machine has no gpus that could be changed, expected one of processors, "
        "gpus:a, gpus:b, memory",
        "gpus:b=-2": "has 2 gpus:b, expected at least 1",
        "memory=+5": "expected \\+10%, -10%, \\+32GiB",
    }.items():
        with pytest.raises(InputError, match=told):
            changed(read_change(text), record, run)


def test_capacities_are_read():
    texts = ("gpus:a100=8,gpus:v100=4", "memory=160GiB")
    assert parse_capacities(texts, ()) == {
        "": {"gpus:a100": 8, "gpus:v100": 4, "memory": 163_840}
    }  # fmt: skip
    texts = ("batch:gpus=8,batch:memory=1TB", "gpus:gpus=4", "gpus:memory=64G")
    assert parse_capacities(texts, ("batch", "gpus")) == {
        "batch": {"gpus": 8, "memory": 953_674}, "gpus": {"gpus": 4, "memory": 65_536},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "pools", "told"),
    [
        (("gpu=4",), (), "unknown resource 'gpu'; did you mean 'gpus'"),
        (("gpus",), (), "the amount is missing, expected gpus=20"),
        (("gpus=4", "gpus=5"), (), "gpus stands there twice"),
        (("gpus=1.5",), (), "expected a whole number of GPUs"),
        (("memory=64",), (), "expected memory with a unit, such as 160GiB"),
        (("processors=64",), (), "--set processors=N, those of pools --pools"),
        (("gpus=4",), ("batch",), "each pool has capacities of its own, as batch:gpus=4"),
        (("btch:gpus=4",), ("batch",), "unknown pool of --capacity 'btch'; did you mean 'batch'"),
        (("batch:gpus=4",), ("batch", "debug"), "pool debug has no gpus.*give debug:gpus=N"),
    ],
)
def test_a_capacity_that_cannot_be_read_is_refused(texts, pools, told):
    with pytest.raises(InputError, match=told):
        parse_capacities(texts, pools)


def test_what_a_log_does_not_say_of_resources_is_a_caution_with_numbers():
    jobs, _ = drawn(2)
    for job in jobs[::10]:
        job["memory"] = None
    workload = workload_of(jobs, 8)
    record = read_record(workload)
    _, nothing_given = with_resources(record, workload, {})
    held = [of.text for of in nothing_given]
    assert [text.partition(" ")[0] for text in held] == ["gpus", "memory"]
    assert "GPUs were held at once; give the capacity of gpus (--capacity gpus=N)" in held[0]
    _, (unknown, left_out) = with_resources(record, workload, {"": {"gpus:a": 3, "memory": 1500}})
    share = (record.cpu * record.run)[::10].sum() / (record.cpu * record.run).sum()
    assert unknown.code == ("unknown_asks" if share > 0.05 else "some_unknown_asks")
    assert unknown.numbers == {"jobs": 12, "share": pytest.approx(share)}
    assert left_out.text.startswith("gpus:b is left out, since its capacity is not known: at least")
    _, told = with_resources(record, workload, {"": {"gpus": 5, "memory": 1500}})
    (as_one,) = [of for of in told if of.code == "types_as_one"]
    assert as_one.numbers == {"jobs": sum(any(job["types"].values()) for job in jobs)}
    assert "gpus:a, gpus:b, but all GPUs are played as one type: --capacity with" in as_one.text


def test_types_are_one_resource_where_no_job_names_one():
    jobs, _ = drawn(2)
    for job in jobs:
        job["types"] = {}
    workload = workload_of(jobs, 8)
    (record,) = machines_of(workload, {"": 8}, {"": {"gpus:a": 3, "gpus:b": 2}})
    assert record.resources.names == ("processors", "gpus")
    assert record.resources.capacity.tolist() == [8, 5]
