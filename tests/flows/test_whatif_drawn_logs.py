"""Drawn logs with drawn faults: no page says more than the decision table allows."""

from pathlib import Path

import numpy as np
import pytest

from tests.flows.whatif_pages import COLOURS, Answer
from tests.pipeline.whatif.records import by_hand
from tests.pipeline.whatif.schedulers import ALL, ORDERS, Scheduler

# A fault -> the only badge that a log with it can have; None if its strength decides.
FAULTS = {
    "none": None,
    "guessed size": "Cannot be judged",
    "no requests": "Cannot be judged",
    "unknown waits": "Cannot be judged",
    "few jobs": "Cannot be judged",
    "pooled partitions": "Cannot be judged",
    "nobody waits": "Nearly nobody waits",
    "larger machine": None,
    "closed day": None,
    "holds": None,
}
PROCESSORS = 16


def draw(seed, fault, file):
    """Write a log of a drawn scheduler with a fault; return the options that read it."""
    rng = np.random.default_rng(seed)
    jobs = 320 if fault == "few jobs" else int(rng.integers(410, 500))
    cpu = rng.choice([1, 2, 4, 8], jobs, p=[0.4, 0.3, 0.2, 0.1])
    requested = rng.choice([3600, 14_400, 43_200, 172_800], jobs) * int(rng.integers(1, 5))
    run = np.maximum((requested * rng.uniform(0.03, 1.0, jobs)).astype(int), 5)
    load = 0.02 if fault == "nobody waits" else rng.uniform(0.7, 1.05)
    span = int((cpu * run).sum() / (PROCESSORS * load))
    submit = np.sort(rng.integers(0, span, jobs))
    truth = PROCESSORS * 5 // 4 if fault == "larger machine" else PROCESSORS
    order = rng.choice([*ORDERS])
    reservations = int(rng.choice([0, 1, 1, ALL]))
    closed = (span * 3 // 4, span * 3 // 4 + 2 * 86_400) if fault == "closed day" else None
    hold = np.where(rng.random(jobs) < 0.25, 7200, 0) if fault == "holds" else 0
    record = by_hand(
        truth, *zip(submit, submit, run, cpu, strict=True), requested=requested,
        user=rng.integers(0, 6, jobs),
    )  # fmt: skip
    scheduler = Scheduler(order, reservations, closed=closed)
    partition = np.full(jobs, -1)
    start = np.zeros(jobs, int)
    if fault == "pooled partitions":
        partition = np.arange(jobs) % 2 + 1
        for half in (1, 2):
            of = np.flatnonzero(partition == half)
            start[of] = scheduler.starts(record.take(of), PROCESSORS // 2)
    else:
        start = scheduler.starts(record, truth, hold)
    wait = start - submit
    if fault == "unknown waits":
        wait = np.where(rng.random(jobs) < 0.25, -1, wait)
    told = np.full(jobs, -1) if fault == "no requests" else requested
    header = f"; MaxNodes: {PROCESSORS // 4}" if fault == "guessed size" else None
    lines = [header or f"; MaxProcs: {PROCESSORS}"]
    for row in zip(submit, wait, run, cpu, told, record.user, partition, strict=True):
        at, waited, ran, held, asked, user, part = (int(value) for value in row)
        lines.append(
            f"{len(lines)} {at} {waited} {ran} {held} -1 -1 {held} {asked} -1 1 {user + 1} 1 -1 "
            f"-1 {part} -1 -1"
        )
    file.write_text("\n".join(lines) + "\n")
    return file


def check(seed, folder: Path):
    fault = [*FAULTS][seed % len(FAULTS)]
    folder.mkdir()
    log = draw(seed, fault, folder / "jobs.swf")
    rules = ("--only-rule", "fcfs_easy", "sjf_easy", "saf_easy", "lxf_easy", "--shake", 3)
    page = Answer(log, folder / "out", *rules).is_honest()
    badge = page.json["badge"]
    assert FAULTS[fault] in {None, badge}, (seed, fault, badge)
    if fault in {"larger machine", "holds", "closed day"} and badge in COLOURS:
        # Too weak to be seen in the record: it fits the machine, and nothing starts out of order.
        assert page.json["nearness"]["grade"] in {"A", "B"}, (seed, fault)
        assert page.json["replay"]["late"] <= 0.1 * page.json["jobs"]["run"], (seed, fault)
    return fault, badge


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "no requests", "unknown waits", "holds", "closed day"])
def test_a_drawn_log_with_a_fault(tmp_path, fault):
    assert check([*FAULTS].index(fault), tmp_path / "page")[0] == fault


@pytest.mark.nightly
@pytest.mark.parametrize("chunk", range(20))
def test_a_thousand_drawn_logs(tmp_path, chunk):
    found = [check(seed, tmp_path / str(seed)) for seed in range(50 * chunk + 10, 50 * chunk + 60)]
    # Good logs are not all grey: a page that never says what a rule would bring is wrong too.
    assert {badge for fault, badge in found if fault == "none"} - {"Cannot be judged"}
