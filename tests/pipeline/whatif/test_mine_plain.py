"""Policies of slurm.conf give every start of a plain event loop, and the golden numbers."""

import bisect
import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.traces import swf
from hindcast.pipeline.whatif.batch_systems.mine import read_mine
from hindcast.pipeline.whatif.batch_systems.multifactor import Clock, slurm_mode, slurm_order
from hindcast.pipeline.whatif.batch_systems.slurm_conf import UNLIMITED, SlurmConf, parse_slurm_conf
from hindcast.pipeline.whatif.family import explain, members
from hindcast.pipeline.whatif.orders import ALL, Mode
from hindcast.pipeline.whatif.outcomes import outcomes
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import Record, read_record
from hindcast.pipeline.whatif.run import run_of
from tests.conftest import require_traces

PATH = Path("slurm.conf")
EASY, STRICT = 1, 0


def a_record(rng: np.random.Generator, jobs: int = 150, machine: int = 32) -> Record:
    """Return a busy random log; some of its users are unknown, and some of its starts."""
    submit = np.sort(rng.integers(0, 60 * jobs, jobs))
    run = rng.integers(1, 3_000, jobs)
    unknown = {n: np.full(jobs, -1) for n in ("partition", "qos", "account", "nodes")}
    user = rng.integers(-1, 6, jobs)
    return Record(
        processors=machine, row=np.arange(jobs), submit=submit, arrive=submit, run=run,
        cpu=rng.integers(1, machine // 2, jobs), requested=run * rng.integers(1, 6, jobs),
        user=user, key=np.where(user < 0, -1, np.arange(jobs)), queue=rng.integers(-1, 3, jobs),
        start=np.where(rng.random(jobs) < 0.95, submit + rng.integers(0, 2_000, jobs), NEVER),
        **unknown,
    )  # fmt: skip


@dataclass
class Job:
    submit: int
    cpu: int
    run: int
    requested: int
    user: int
    fixed: float
    start: int
    row: int


def priority_of(conf: SlurmConf, job: Job, now: int, usage: dict[int, float]) -> int:
    age = conf.weight_age * min((now - job.submit) / conf.max_age_s, 1.0)
    mine, users = usage[job.user], len(usage)
    if "NO_FAIR_TREE" not in conf.flags:
        fair = sum(one >= mine for one in usage.values()) / users
    else:
        total = sum(usage.values())
        fair = 2.0 ** (-(mine / total * users) / conf.dampening) if total else 1.0
    return max(1, math.floor(job.fixed + age + conf.weight_fairshare * fair))


def fixed_of(conf: SlurmConf, record: Record, job: int) -> float:
    cpu, machine = int(record.cpu[job]), record.processors
    if "SMALL_RELATIVE_TO_TIME" in conf.flags:
        size = cpu / math.ceil(record.requested[job] / 60) / machine
        size = 1 - size if conf.favor_small else size
    else:
        size = (machine - cpu if conf.favor_small else cpu) / machine
    most = max([one.job_factor for one in conf.partitions.values()], default=1)
    own = conf.partitions.get(str(record.queue[job]))
    return conf.weight_size * size + conf.weight_partition * (own.job_factor if own else 0) / most


def decided(now: int, order: list[Job], free: int, running: list[Job], mode: Mode) -> list[Job]:
    """Return the jobs that start, from an order and a mode."""
    started = []
    while order and order[0].cpu <= free:
        free -= order[0].cpu
        started.append(order[0])
        order = order[1:]
    if not order or mode.reservations == STRICT:
        return started
    taken = [(max(j.start + j.requested, now), j.cpu) for j in running]
    taken += [(now + j.requested, j.cpu) for j in started]
    if mode.reservations == EASY:
        ends = sorted({end for end, _ in taken})
        freed = [free + sum(n for end, n in taken if end <= one) for one in ends]
        place = next(i for i, total in enumerate(freed) if total >= order[0].cpu)
        shadow, spare = ends[place], freed[place] - order[0].cpu
        for job in order[1 : mode.depth]:
            if job.cpu > free or (now + job.requested > shadow and job.cpu > spare):
                continue
            started.append(job)
            free -= job.cpu
            spare -= job.cpu if now + job.requested > shadow else 0
        return started
    times, room = [now], [free]
    for end, n in sorted((max(end, now + 1), n) for end, n in taken):
        if times[-1] < end:
            times.append(end)
            room.append(room[-1])
        room[-1] += n
    slots = 0
    for job in order[: mode.depth]:
        begin = next(
            i
            for i, t in enumerate(times)
            if all(room[k] >= job.cpu for k in range(i, len(times)) if times[k] < t + job.requested)
        )
        if begin > 0 and slots >= mode.reservations:
            continue
        if begin == 0:
            started.append(job)
        else:
            slots += 1
        end = times[begin] + job.requested
        last = bisect.bisect_left(times, end)
        if last == len(times) or times[last] > end:
            times.insert(last, end)
            room.insert(last, room[last - 1])
        for k in range(begin, last):
            room[k] -= job.cpu
    return started


def plain_starts(
    conf: SlurmConf, record: Record, mode: Mode, resets: Callable[[int, int], list[int]]
) -> dict[int, int]:
    """Return the start of every job from int(.7 N) on and of the carried ones, by row."""
    first = int(0.7 * len(record.row))
    now = int(record.submit[first])
    jobs = [
        Job(*(int(getattr(record, n)[i]) for n in ("submit", "cpu", "run", "requested", "user")),
            fixed_of(conf, record, i), int(record.start[i]), i)
        for i in range(len(record.row))
    ]  # fmt: skip
    known = [job if job.start != NEVER else None for job in jobs[:first]]
    for job in jobs[:first]:
        job.start = job.submit if job.start == NEVER else job.start
    running = [j for j in jobs[:first] if j.start < now < j.start + j.run]
    coming = [j for j in jobs[:first] if j.start >= now] + jobs[first:]
    usage = dict.fromkeys(sorted({int(user) for user in record.user}), 0.0)
    half_life = conf.half_life_s

    def held(cpu: int, begin: int, end: int) -> float:
        """Return the usage at `now` of processors that were held."""
        begin = max([begin, *(t for t in resets(0, now) if t >= begin)])
        if not half_life:
            return float(cpu * max(end - begin, 0))
        scale = half_life / math.log(2)
        return (
            cpu * scale * max(2 ** ((end - now) / half_life) - 2 ** ((begin - now) / half_life), 0)
        )

    for job in known:
        if job and job.start < now:
            usage[job.user] += held(job.cpu, job.start, min(job.start + job.run, now))
    free, waiting, starts = record.processors - sum(j.cpu for j in running), [], {}
    while True:
        for job in [j for j in running if j.start + j.run <= now]:
            running.remove(job)
            free += job.cpu
        while coming and coming[0].submit <= now:
            waiting.append(coming.pop(0))
        order = sorted(waiting, key=lambda j: (-priority_of(conf, j, now, usage), j.submit, j.row))
        for job in decided(now, order, free, running, mode):
            job.start = starts[job.row] = now
            free -= job.cpu
            running.append(job)
            waiting.remove(job)
        after = [j.start + j.run for j in running] + [j.submit for j in coming[:1]]
        if not after:
            return starts
        last, now = now, min(after)
        for moment in [*resets(last + 1, now), now]:
            kept = 0.5 ** ((moment - last) / half_life) if half_life else 1.0
            gained = half_life / math.log(2) * (1 - kept) if half_life else moment - last
            for user in usage:
                mine = sum(j.cpu for j in running if j.user == user)
                usage[user] = usage[user] * kept + mine * gained
                if moment in resets(last + 1, now):
                    usage[user] = 0.0
            last = moment


SETTINGS = (
    "PriorityWeightAge=1000\nPriorityMaxAge=0-1\nPriorityWeightJobSize=700",
    (
        "PriorityWeightAge=50\nPriorityMaxAge=10\nPriorityWeightJobSize=999\nPriorityFavorSmall=YES\n"
        "PriorityWeightFairshare=2000\nPriorityFlags=NO_FAIR_TREE\nPriorityDecayHalfLife=20"
    ),
    (
        "PriorityWeightAge=300\nPriorityMaxAge=0-5\nPriorityWeightFairshare=1000\n"
        "PriorityDecayHalfLife=0\nPriorityWeightPartition=400\n"
        "PartitionName=0 PriorityJobFactor=2\n"
        "PartitionName=1 PriorityJobFactor=5"
    ),
    (
        "PriorityFlags=SMALL_RELATIVE_TO_TIME,NO_FAIR_TREE\nPriorityWeightJobSize=100000\n"
        "PriorityFavorSmall=YES\nPriorityWeightFairshare=99\nFairShareDampeningFactor=3\n"
        "PriorityUsageResetPeriod=DAILY"
    ),
    (
        "PriorityFlags=SMALL_RELATIVE_TO_TIME\nPriorityWeightJobSize=100000\n"
        "PriorityWeightFairshare=500\nPriorityUsageResetPeriod=DAILY\nPriorityDecayHalfLife=60"
    ),
)


@pytest.mark.parametrize(
    "mode", [Mode(EASY), Mode(ALL, 500), Mode(3, 6), Mode(EASY, 4), Mode(STRICT)]
)
@pytest.mark.parametrize("setting", range(len(SETTINGS)))
def test_every_start_is_that_of_a_plain_event_loop(setting, mode):
    conf = parse_slurm_conf(SETTINGS[setting], PATH)
    record = a_record(np.random.default_rng(setting))
    clock = Clock(3_600 * 22)  # so that a midnight is in the run
    run = run_of(record, record.first)
    starts = play(run, slurm_order(conf, record, clock), mode)
    resets = lambda a, b: clock.resets(conf.reset, a, b).tolist()  # noqa: E731
    expected = plain_starts(conf, record, mode, resets)
    assert dict(zip(run.row[run.running :], starts[run.running :], strict=True)) == expected


def test_the_settings_differ_from_each_other():
    """The plain loop would not notice a factor that has no effect."""
    record = a_record(np.random.default_rng(0))
    run = run_of(record, record.first)
    found = {
        tuple(play(run, slurm_order(parse_slurm_conf(s, PATH), record, Clock()), Mode(1)))
        for s in SETTINGS
    }
    assert len(found) == len(SETTINGS)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("SchedulerType=sched/builtin", Mode(STRICT)),
        ("PriorityWeightAge=1", Mode(ALL, 500)),
        ("SchedulerParameters=bf_job_part_count_reserve=1,bf_max_job_test=90", Mode(EASY, 90)),
    ],
)
def test_the_mode_is_that_of_the_scheduler(text, mode):
    assert slurm_mode(parse_slurm_conf(text, PATH)) == mode


@pytest.mark.parametrize("setting", [1, 4])
def test_a_log_that_was_served_by_these_settings_is_known(setting):
    """Each recorded start is what `mine` decides, with the usage of the record until then."""
    record = a_record(np.random.default_rng(setting))
    conf = parse_slurm_conf(SETTINGS[setting], PATH)
    run = run_of(record, 0, warm=False)
    policy = slurm_order(conf, record, Clock()), slurm_mode(conf)
    served = replace(record, start=play(run, *policy))
    mine, *others = explain([served], members(policy))
    assert (mine.name.split()[0], mine.share, mine.idle) == ("mine", 1.0, 0.0)
    assert max(one.share for one in others if "mine" not in one.name) < 1.0


def test_age_without_an_end_is_that_of_slurm():
    conf = parse_slurm_conf("PriorityWeightAge=5\nPriorityMaxAge=UNLIMITED", PATH)
    assert conf.max_age_s == UNLIMITED
    order = slurm_order(conf, a_record(np.random.default_rng(0)), Clock())
    assert order.priorities is not None
    record = a_record(np.random.default_rng(0))
    _, floats = order.priorities.begin(run_of(record, record.first))
    assert floats[1] == 2**32 - 1


GOLDEN = ("KTH-SP2-1996-2", "SDSC-SP2-1998-4.2-cln")


def golden(log: str, settings: set[str]) -> None:
    rows = require_traces("../golden/whatif/multifactor.csv").read_text().splitlines()
    folder = require_traces("../golden/whatif/conf")
    workload, _ = swf.read(require_traces(f"swf/{log}.swf.gz"))
    record = read_record(workload)
    run, checked = run_of(record, record.first), 0
    for row in csv.DictReader(rows):
        if row["log"] not in log or row["setting"] not in settings:
            continue
        mine = read_mine(str(folder / f"{row['setting']}.conf"), record)
        mode = Mode(1) if row["reservations"] == "1" else mine.mode
        found = outcomes(run, play(run, mine.order, mode))
        for name in ("mean_bounded_slowdown", "mean_wait_s"):
            assert found[name] == pytest.approx(float(row[name]), rel=1e-9), row
        assert run.counted.sum() == int(row["jobs"])
        checked += 1
    assert checked == 2 * len(settings)


@pytest.mark.slow
def test_fair_share_has_the_golden_numbers():
    golden(GOLDEN[0], {"fair_classic"})


@pytest.mark.nightly
@pytest.mark.parametrize("log", GOLDEN)
def test_nine_settings_have_the_golden_numbers(log):
    folder = require_traces("../golden/whatif/conf")
    golden(log, {path.stem for path in folder.glob("*.conf")})


@pytest.mark.slow
def test_a_log_of_multifactor_priority_is_explained_by_its_own_settings():
    """Fair share with EASY backfilling made every start of this log, with no usage before it."""
    record = read_record(swf.read(require_traces("../cases/whatif/sdsc-a.swf.gz"))[0])
    text = (require_traces("../golden/whatif/conf") / "fair_classic.conf").read_text()
    conf = parse_slurm_conf(
        text.replace("bf_max_job_test=500", "bf_job_part_count_reserve=1"), PATH
    )
    policy = slurm_order(conf, record, Clock()), slurm_mode(conf)
    nearest, *_ = explain([record], members(policy))
    assert (nearest.name.split()[0], nearest.share, nearest.idle) == ("mine", 1.0, 0.0)
    run = run_of(record, record.first)
    assert play(run, *policy).tolist() == run.start.tolist()
