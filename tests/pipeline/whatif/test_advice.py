"""What to change: every line that is printed has its value, which is what the line does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.scenarios.queue.priorities import RULES
from hindcast.pipeline.traces import swf
from hindcast.pipeline.whatif.batch_systems import advice
from hindcast.pipeline.whatif.batch_systems.advice import OUTCOMES, Advice, advise
from hindcast.pipeline.whatif.batch_systems.mine import read_mine
from hindcast.pipeline.whatif.batch_systems.multifactor import Clock, slurm_mode, slurm_order
from hindcast.pipeline.whatif.batch_systems.pbs_formula import parse_pbs_conf
from hindcast.pipeline.whatif.batch_systems.slurm_conf import parse_slurm_conf
from hindcast.pipeline.whatif.orders import HANDICAP, STRICT, Mode, Order, policy_of
from hindcast.pipeline.whatif.outcomes import outcomes
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import Record, read_record
from hindcast.pipeline.whatif.run import Run, run_of
from tests.conftest import require_traces

PATH = Path("slurm.conf")


@pytest.fixture(scope="module")
def record() -> Record:
    """Return a busy random log of 200 jobs whose limits are no whole minutes."""
    rng, jobs = np.random.default_rng(11), 200
    submit = np.sort(rng.integers(0, 50 * jobs, jobs))
    run = rng.integers(1, 3_000, jobs)
    unknown = {n: np.full(jobs, -1) for n in ("queue", "partition", "qos", "account", "nodes")}
    return Record(
        processors=32, row=np.arange(jobs), submit=submit, arrive=submit, run=run,
        cpu=rng.integers(1, 16, jobs), requested=run * rng.integers(1, 6, jobs),
        user=rng.integers(0, 6, jobs), key=np.arange(jobs),
        start=submit + rng.integers(0, 2_000, jobs), **unknown,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(record: Record) -> Run:
    return run_of(record, record.first)


@pytest.fixture(scope="module")
def found(record: Record, run: Run) -> Advice:
    return advise(record, run, "lxf_easy", policy_of("fcfs"))


def test_every_row_has_its_simulated_value(found):
    frame = found.frame
    assert frame.columns[:6] == [
        "rule", "scheduler", "reservations", "exact", "choice", "lines",
    ]  # fmt: skip
    assert not frame.null_count().to_numpy().any()
    assert np.isfinite(frame.select(OUTCOMES).to_numpy()).all()
    assert frame.row(0)[:3] == ("fcfs", "today", "none")
    assert set(frame["scheduler"]) == {"today", "simulated", "PBS", "Slurm"}
    assert (frame["lines"].str.len_chars() > 0).to_list() == [
        one in {"PBS", "Slurm"} for one in frame["scheduler"]
    ]
    assert found.left_out == ()


def test_lines_say_how_many_jobs_get_a_reservation(found):
    for row in found.frame.filter(scheduler="Slurm").iter_rows(named=True):
        mode = slurm_mode(parse_slurm_conf(row["lines"], PATH))
        assert (
            mode
            == {"1": Mode(1, 500), "all": replace(advice.ALL_RESERVE, depth=500)}[
                row["reservations"]
            ]
        )
    both = found.frame.filter(scheduler="Slurm").group_by("rule").len()
    assert both.filter(rule="handicap k r n")["len"].to_list() == [2]


@pytest.mark.slow
def test_multifactor_lines_have_the_value_of_a_file_with_them(tmp_path, record, run):
    found = advise(record, run, "saf_easy", minutes=False)
    rows = found.frame.filter(exact="another order").to_dicts()
    assert len(rows) == 4
    for row in rows:
        (tmp_path / "slurm.conf").write_text(row["lines"])
        mine = read_mine(str(tmp_path / "slurm.conf"), record)
        again = outcomes(run, play(run, mine.order, mine.mode))
        assert [row[name] for name in OUTCOMES] == [again[name] for name in OUTCOMES]


LINES = """PriorityType=priority/multifactor
PriorityMaxAge=365-0
PriorityWeightAge=31536000
PriorityWeightPartition=1000000000
PartitionName=0 PriorityJobFactor=1
"""


def test_lines_of_a_handicap_order_by_arrival_and_handicap(record, run):
    """The priorities of Slurm, cut and kept above 1, give the starts of the order itself."""
    queues = replace(record, queue=np.zeros(len(record.row), np.int64))
    there = replace(run, queue=np.zeros(len(run.row), np.int64))
    for k in (0.5, 40.0):

        def handicap(run: Run, k: float = k) -> np.ndarray:
            return np.floor(k * run.requested * run.cpu)

        slurm = slurm_order(parse_slurm_conf(LINES, PATH), queues, Clock(), nice=handicap)
        order = Order("handicap", HANDICAP, numbers=handicap)
        for mode in (Mode(1), advice.ALL_RESERVE):
            assert play(there, slurm, mode).tolist() == play(there, order, mode).tolist()


def test_lines_of_a_rule_without_age(record, run):
    """In whole minutes `nice` orders as the rule does with whole minutes."""
    found = advise(record, run, "saf_easy").frame
    rows = found.filter(rule="saf", scheduler="Slurm")
    assert "nice = limit in minutes x processors" in rows["lines"][0]
    policy = policy_of("saf_easy")
    assert policy is not None
    order = replace(policy[0], minutes=True)
    for row, mode in zip(rows.to_dicts(), (Mode(1, 500), advice.ALL_RESERVE), strict=True):
        again = outcomes(run, play(run, order, mode))
        assert row["mean_wait_s"] == again["mean_wait_s"]


def test_priorities_of_a_site_factor_are_whole_thousandths(record, run):
    """Waits of less than a thousandth of the limit do not count, and lxf is 1000 at first."""
    policy = policy_of("lxf_easy")
    assert policy is not None
    order = advice._site_factor(policy[0])
    assert order.priorities is not None
    ints, floats = order.priorities.begin(run)
    jobs, values = np.arange(3), np.zeros(3)
    arrive, limit = run.arrive, 60 * np.ceil(run.requested / 60)
    now = int(arrive[1]) + 5_000
    order.priorities.fill(ints, floats, now, jobs, arrive, values)
    expected = np.floor(1000 * ((now - arrive[:3]) + limit[:3]) / limit[:3])
    assert values.tolist() == expected.tolist()
    order.priorities.fill(ints, floats, int(arrive.min()) - 9, jobs, arrive, values)
    assert values.tolist() == [1000] * 3


def test_the_nice_of_large_jobs_stays_below_the_constant(record, monkeypatch):
    monkeypatch.setattr(advice, "STEPS", (64.0,))
    monkeypatch.setattr(advice, "_multifactors", lambda _: [])
    large = replace(record, requested=record.requested * 10_000)
    run = run_of(large, large.first)
    lines = advise(large, run, "saf_easy").frame.filter(rule="handicap k r n")["lines"]
    assert all("PriorityWeightPartition=4000000000" in one for one in lines)
    assert all("bf_window=43200" in one for one in lines)


def choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the rows whose constants are chosen."""
    for rows in ("_handicaps", "_multifactors"):
        monkeypatch.setattr(advice, rows, lambda *_: [])


def test_what_would_take_many_minutes_is_left_out_with_the_reason(record, run, monkeypatch):
    monkeypatch.setattr(advice, "FEW", 0)
    found = advise(record, run, "saf_easy")
    assert set(found.frame["reservations"]) == {"1"}
    assert not found.frame["choice"].to_list() or set(found.frame["choice"]) == {""}
    assert "every tested job reserves" in found.left_out[-1]


@pytest.mark.parametrize("name", RULES)
def test_rules_of_every_kind_have_rows_or_a_reason(record, run, name, monkeypatch):
    choose_nothing(monkeypatch)
    found = advise(record, run, f"{name}_easy")
    rows = found.frame.filter(rule=name)
    assert rows["scheduler"].to_list()[:2] == ["simulated"] * 2
    slurm = rows.filter(scheduler="Slurm").height
    assert slurm or any(name in reason for reason in found.left_out)
    for lines in rows.filter(scheduler="PBS")["lines"]:
        conf = parse_pbs_conf(lines, PATH)
        assert (conf.formula is None) == (name == "fcfs")
        assert (conf.depth, conf.not_modelled) == (1, ())


def test_a_plugin_of_learned_run_times_has_the_rule_s_own_priorities(record, run, monkeypatch):
    choose_nothing(monkeypatch)
    found = advise(record, run, "aged_expected_easy").frame.filter(rule="aged_expected")
    row = found.filter(scheduler="Slurm", reservations="1").row(0, named=True)
    assert "has to keep means of the run times" in row["exact"]
    order = replace(policy_of("aged_expected_easy")[0], refresh_s=60, minutes=True)
    wanted = outcomes(run, play(run, order, Mode(1, 500)))
    assert row["mean_wait_s"] == wanted["mean_wait_s"]


def test_what_has_no_lines_is_said(record, run, monkeypatch):
    choose_nothing(monkeypatch)
    for name in ("sjf_clairvoyant", "my_agent", "mine"):
        found = advise(record, run, name)
        assert name in found.left_out[0]
        assert set(found.frame["rule"]) == {"multifactor with fair share"}
    assert advise(record, run, "conservative").frame["rule"][0] == "fcfs"


# rule: slowdown and wait in h with EASY, and where 500 tested jobs reserve.
TABLE = {
    "KTH-SP2-1996-2": {
        "lxf": (30.4, 0.91, 36.3, 1.02),
        "handicap k r n": (20.9, 0.63, 22.7, 0.63),
        "handicap k h ln r": (25.3, 0.75, 26.8, 0.81),
        "handicap k h ln(r n)": (21.2, 0.69, 23.9, 0.68),
        "multifactor age + size": (29.5, 0.98, 35.1, 0.71),
        "multifactor with fair share": (17.8, 0.69, 19.0, 0.71),
    },
    "SDSC-SP2-1998-4.2-cln": {
        "lxf": (89.4, 8.62, 124.5, 12.27),
        "handicap k r n": (168.2, 36.82, 164.5, 35.99),
        "handicap k h ln r": (86.1, 10.79, 147.6, 16.99),
        "handicap k h ln(r n)": (95.0, 13.14, 123.5, 16.61),
        "multifactor age + size": (91.0, 8.29, 136.0, 11.55),
        "multifactor with fair share": (94.0, 16.48, 108.4, 18.86),
    },
}
RULES_OF_TABLE = {
    "KTH-SP2-1996-2": {
        "fcfs": (62.5, 1.36, 60.4, 1.47), "sjf": (24.6, 0.71, 27.0, 0.84),
        "saf": (24.5, 0.69, 23.9, 0.64), "wfp3": (33.2, 0.97, 38.2, 1.04),
        "unicef": (29.8, 0.90, 30.2, 0.95),
    },
    "SDSC-SP2-1998-4.2-cln": {
        "fcfs": (166.1, 10.87, 167.4, 12.49), "sjf": (119.1, 19.00, 221.6, 30.87),
        "saf": (157.7, 35.31, 160.1, 34.94), "wfp3": (90.3, 8.82, 138.0, 12.83),
        "unicef": (88.5, 10.45, 127.0, 14.08),
    },
}  # fmt: skip
SEEN = {"KTH-SP2-1996-2": (32.3, 0.92), "SDSC-SP2-1998-4.2-cln": (85.7, 8.83)}


def shown(frame, rule: str) -> list[float]:
    rows = frame.filter(rule=rule)
    simulated = rows.filter(scheduler="simulated")
    pairs = (simulated if simulated.height else rows).select("mean_bounded_slowdown", "mean_wait_s")
    return [x / unit for row in pairs.rows() for x, unit in zip(row, (1, 3600), strict=True)]


@pytest.mark.nightly
@pytest.mark.parametrize("log", TABLE)
def test_the_published_values_of_two_logs(log, monkeypatch):
    """With limits in seconds; half a unit of the last printed digit is allowed."""
    workload, _ = swf.read(require_traces(f"swf/{log}.swf.gz"))
    record = read_record(workload)
    run = run_of(record, record.first)
    frame = advise(record, run, "lxf_easy", minutes=False).frame
    units = np.array([0.05, 0.005, 0.05, 0.005]) * 1.02
    for rule, values in TABLE[log].items():
        assert (np.abs(np.array(shown(frame, rule)) - values) <= units).all(), rule
    choose_nothing(monkeypatch)
    for rule, values in RULES_OF_TABLE[log].items():
        frame = advise(record, run, f"{rule}_easy", minutes=False).frame
        assert (np.abs(np.array(shown(frame, rule)) - values) <= units).all(), rule
    policy = policy_of("lxf_easy")
    assert policy is not None
    late = outcomes(run, play(run, replace(policy[0], refresh_s=300), policy[1]))
    pair = np.array([late["mean_bounded_slowdown"], late["mean_wait_s"] / 3600])
    assert (np.abs(pair - SEEN[log]) <= units[:2]).all()


def test_a_policy_without_reservations_is_named(record, run):
    policy = policy_of("fcfs")
    assert policy is not None
    assert policy[1] == STRICT
    found = advise(record, run, "fcfs_easy", (policy[0], Mode(-1))).frame
    assert found["reservations"][0] == "greedy"
    assert found.filter(rule="fcfs", scheduler="Slurm")["lines"][0].startswith("PriorityType=prio")
