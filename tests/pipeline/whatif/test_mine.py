"""The policy `mine` of a formula of PBS, of a function, and what is refused."""

import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError, PolicyFault, UnknownName
from hindcast.pipeline.traces import swf
from hindcast.pipeline.whatif.batch_systems import advice
from hindcast.pipeline.whatif.batch_systems.mine import Mine, read_mine
from hindcast.pipeline.whatif.orders import ALL, EASY, GREEDY, STRICT, Mode, policy_of
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import Record, read_record
from hindcast.pipeline.whatif.run import Run, run_of
from tests.conftest import require_traces


@pytest.fixture(scope="module")
def record() -> Record:
    """Return a busy random log of 300 jobs, queues 1 and 2, six users."""
    rng, jobs = np.random.default_rng(7), 300
    submit = np.sort(rng.integers(0, 50 * jobs, jobs))
    run = rng.integers(1, 3_000, jobs)
    unknown = {n: np.full(jobs, -1) for n in ("partition", "qos", "account", "nodes")}
    return Record(
        processors=32, row=np.arange(jobs), submit=submit, arrive=submit, run=run,
        cpu=rng.integers(1, 16, jobs), requested=run * rng.integers(1, 6, jobs),
        user=rng.integers(0, 6, jobs), key=np.arange(jobs), queue=rng.integers(1, 3, jobs),
        start=submit + rng.integers(0, 2_000, jobs), **unknown,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(record: Record) -> Run:
    return run_of(record, record.first)


def given(folder: Path, text: str, record: Record, name: str = "pbs.txt", of: str = "") -> Mine:
    """Return the policy of a file with this text."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return read_mine(f"{path}{of}", record)


def played(run: Run, mine: Mine) -> list[int]:
    return play(run, mine.order, mine.mode).tolist()


def rule(run: Run, name: str, mode: Mode | None = None) -> list[int]:
    policy = policy_of(name)
    assert policy is not None
    return play(run, policy[0], mode or policy[1]).tolist()


FORMULAS = {name: text for name, text in advice._FORMULAS.items() if text}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_of_the_rules_have_their_starts(tmp_path, record, run, name):
    mine = given(tmp_path, f"job_sort_formula = {FORMULAS[name]}", record)
    assert mine.mode == Mode(1)
    assert played(run, mine) == rule(run, f"{name}_easy")


@pytest.mark.nightly
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_have_the_starts_of_the_rules_in_a_real_log(tmp_path, name):
    workload, _ = swf.read(require_traces("swf/KTH-SP2-1996-2.swf.gz"))
    record = read_record(workload)
    run = run_of(record, record.first)
    mine = given(tmp_path, f"job_sort_formula = {FORMULAS[name]}", record)
    assert played(run, mine) == rule(run, f"{name}_easy")


def test_the_depth_of_backfilling_is_the_number_of_reservations(tmp_path, record, run):
    for text, mode in (
        ("set server backfill_depth = 3", Mode(3)),
        ("backfill_depth: 0", STRICT),
        ("strict_ordering: false", Mode(GREEDY)),
    ):
        mine = given(tmp_path, f"{text}\njob_sort_formula = -walltime", record)
        assert mine.mode == mode
        assert played(run, mine) == rule(run, "sjf", mode)
    assert played(run, given(tmp_path, "backfill_depth = 2", record)) == rule(run, "fcfs", Mode(2))


def test_fair_share_of_pbs_is_the_classic_one_of_slurm(tmp_path, record, run):
    """With equal shares and a half-life of a day both order by 2^(-usage x users)."""
    pbs = given(tmp_path, "job_sort_formula = floor(1e6 * fairshare_factor)", record)
    same = given(
        tmp_path,
        "job_sort_formula = floor(1e6 * pow(2, -(fairshare_tree_usage / fairshare_perc)))",
        record,
    )
    slurm = given(
        tmp_path,
        "PriorityWeightFairshare=1000000\nPriorityFlags=NO_FAIR_TREE\nPriorityDecayHalfLife=1-0\n",
        record, "slurm.conf",
    )  # fmt: skip
    expected = play(run, slurm.order, EASY).tolist()
    assert played(run, pbs) == played(run, same) == expected
    assert expected != rule(run, "fcfs_easy")
    assert "usage in processor-seconds" in pbs.not_modelled[-1]


def test_priorities_of_queues(tmp_path, record, run):
    lines = "set queue 2 Priority = 100\njob_sort_formula = queue_priority"
    slurm = given(
        tmp_path,
        "PriorityWeightPartition=9\nPartitionName=2\nPartitionName=1 PriorityJobFactor=0",
        record, "slurm.conf",
    )  # fmt: skip
    assert played(run, given(tmp_path, lines, record)) == play(run, slurm.order, EASY).tolist()
    with pytest.raises(
        InputError, match=r"none of the queues batch is one of the log; expected 1, 2"
    ):
        given(tmp_path, lines.replace("queue 2", "queue batch"), record)


def test_a_formula_without_a_number_names_the_job(tmp_path, record, run):
    mine = given(tmp_path, "job_sort_formula = log(eligible_time)", record)
    with pytest.raises(InputError, match=r"has no number for a job of \d+ processors and \d+ s"):
        played(run, mine)


def test_priority_basic_is_the_order_of_arrival(tmp_path, record, run):
    mine = given(tmp_path, "PriorityType=priority/basic\nPriorityWeightJobSize=9", record, "s.conf")
    assert mine.mode == Mode(ALL, 500)
    assert played(run, mine) == rule(run, "conservative")
    zero = given(tmp_path, "PriorityType=priority/multifactor", record, "s.conf")
    assert played(run, zero) == rule(run, "conservative")


def test_partitions_that_the_log_does_not_have(tmp_path, record):
    text = "PriorityWeightPartition=5\nPartitionName=batch\n"
    with pytest.raises(InputError, match=r"no PartitionName \(batch\) is a queue .*expected 1, 2"):
        given(tmp_path, text, record, "s.conf")
    mine = given(tmp_path, f"{text}PartitionName=1", record, "s.conf")
    assert mine.not_modelled == ("no line PartitionName for 2: their PriorityJobFactor is 0",)


def test_names_of_a_log_are_those_of_partitions_and_queues(tmp_path, record, run):
    """Where the log keeps names, lines have them; the numbers behind them are the same jobs."""
    named = replace(record, names={"queue": {1: "long", 2: "express"}})
    text = "PriorityWeightPartition=9\nPartitionName={}\nPartitionName={} PriorityJobFactor=0"
    numbers = given(tmp_path, text.format(2, 1), record, "s.conf")
    names = given(tmp_path, text.format("express", "long"), named, "s.conf")
    assert played(run, names) == played(run, numbers) != rule(run, "fcfs", numbers.mode)
    with pytest.raises(InputError, match=r"\(2, 1\) is a queue .*expected long, express"):
        given(tmp_path, text.format(2, 1), named, "s.conf")
    lines = "set queue {} Priority = 100\njob_sort_formula = queue_priority"
    assert played(run, given(tmp_path, lines.format("express"), named)) == played(
        run, given(tmp_path, lines.format(2), record)
    )


def test_a_window_shorter_than_the_longest_limit_is_said(tmp_path, record):
    longest = -(-int(record.requested.max()) // 60)
    text = "SchedulerParameters=bf_window={}"
    assert not given(tmp_path, text.format(longest), record, "s.conf").not_modelled
    (said,) = given(tmp_path, text.format(longest - 1), record, "s.conf").not_modelled
    assert f"the longest limit of the log is {longest:,} minutes" in said
    builtin = f"{text.format(1)}\nSchedulerType=sched/builtin"
    assert not given(tmp_path, builtin, record, "s.conf").not_modelled


def test_age_counts_from_the_submission_with_accrue_always(tmp_path, record, run):
    """A job that was eligible 600 s after its submission is 600 points ahead of its wait."""
    late = replace(run, submit=run.arrive - 600)
    now = int(run.arrive[1]) + 50
    for flag, points in (("", [50]), ("\nPriorityFlags=ACCRUE_ALWAYS", [650])):
        text = f"PriorityWeightAge=10000\nPriorityMaxAge=0-2:46:40{flag}"
        order = given(tmp_path, text, record, "s.conf").order
        assert order.priorities is not None
        values = np.zeros(1)
        order.priorities.fill(*order.priorities.begin(late), now, np.array([1]), run.arrive, values)
        assert values.tolist() == points


def test_resets_without_a_clock_are_said(tmp_path, record):
    mine = given(tmp_path, "PriorityUsageResetPeriod=WEEKLY", record, "s.conf")
    assert "does not say when its second 0 was" in mine.not_modelled[0]
    assert mine.description.startswith("the scheduler of s.conf; the simulation differs from it: ")
    assert given(tmp_path, "PriorityMaxAge=7-0", record, "s.conf").description.endswith("s.conf")


FUNCTIONS = """
    import numpy as np

    SEEN = []

    def shortest(jobs):
        return -jobs.requested_s

    def expansion(jobs):
        SEEN.append(jobs)
        return (jobs.wait_s + jobs.requested_s) / jobs.requested_s

    def short(jobs):
        return np.zeros(len(jobs.user) + 1)

    def nothing(jobs):
        return None

    def endless(jobs):
        return 1 / (jobs.wait_s * 0.0 + np.inf) - np.inf

    def wrong(jobs):
        return jobs.requested

    def writes(jobs):
        jobs.processors[:] = 1
        return jobs.processors

    def two(jobs, run):
        return jobs.processors

    number = 3
"""


@pytest.mark.parametrize(
    ("function", "name"), [("shortest", "sjf_easy"), ("expansion", "lxf_easy")]
)
def test_a_function_orders_jobs_with_easy_backfilling(tmp_path, record, run, function, name):
    mine = given(tmp_path, FUNCTIONS, record, f"rules_{function}.py", f":{function}")
    assert (mine.mode, mine.label) == (EASY, f"rules_{function}:{function}")
    assert played(run, mine) == rule(run, name)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("short", r"returned an array of shape \(\d+,\) at second \d+ of the log, expected"),
        ("nothing", r"returned an array of shape \(\) at second \d+ of the log, expected"),
        ("endless", r"the priority of waiting job 0 is -inf at second \d+"),
        ("wrong", r"raised AttributeError: .*'requested' \(wrong.py, line \d+\) at second \d+"),
        ("writes", r"raised ValueError: .*read-only"),
    ],
)
def test_a_fault_of_a_function_names_it_and_the_moment(tmp_path, record, run, function, message):
    mine = given(tmp_path, FUNCTIONS, record, f"{function}.py", f":{function}")
    with pytest.raises(PolicyFault, match=rf"{function}:{function}: ({message})"):
        played(run, mine)


def test_what_is_no_policy_is_refused(tmp_path, record):
    for name, message in (("two", "one argument"), ("number", "is int; expected a function")):
        with pytest.raises(InputError, match=message):
            given(tmp_path, FUNCTIONS, record, "refused.py", f":{name}")
    with pytest.raises(UnknownName, match="did you mean 'shortest'"):
        given(tmp_path, FUNCTIONS, record, "refused.py", ":shortes")
    with pytest.raises(InputError, match=r"expected FILE.py:function, such as .*refused.py:short"):
        given(tmp_path, FUNCTIONS, record, "refused.py")
    with pytest.raises(InputError, match=r"no line is known; expected a file with lines of slurm"):
        given(tmp_path, "hello\n", record)
    with pytest.raises(InputError, match="lines of Slurm and of PBS"):
        given(tmp_path, "PriorityMaxAge=7-0\njob_sort_formula = ncpus\n", record)
    with pytest.raises(InputError, match="there is no such file"):
        read_mine("os:system", record)


def test_later_parts_of_chains_are_jobs_of_their_own(tmp_path, record, run):
    """A part that is not planned yet has no submission; a function sees when it came."""
    mine = given(tmp_path, FUNCTIONS, record, "chains.py", ":expansion")
    cut = replace(run, chain=run.chain.copy(), arrive=run.arrive.copy())
    first, second = len(run.row) - 2, len(run.row) - 1
    cut.chain[first], cut.arrive[second] = second, np.iinfo(np.int64).max // 4
    starts = play(replace(cut, counted=cut.counted), mine.order, mine.mode)
    assert starts[second] >= starts[first] + run.run[first]
