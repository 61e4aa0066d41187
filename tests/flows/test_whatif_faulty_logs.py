"""Pages of small logs with faults: no page says more than its log does."""

import re
import shutil

import pytest

from hindcast.flows.cli import main
from tests.flows.whatif_pages import Answer, text_of
from tests.pipeline.whatif.records import beside_traces

SIZE, FEW = "no_cluster_size", "few_jobs"
RULES = ("--only-rule", "fcfs_easy", "sjf_easy", "saf_easy", "saf_clairvoyant", "--shake", 2)
# file, options, disqualifiers, and a sentence of the page
FAULTS = {
    "two clusters": (
        "05-two-clusters.txt", (), {SIZE, FEW, "clusters_pooled"},
        "2 clusters are pooled as one machine: beta 50% of the jobs and 54% of the work",
    ),
    "one of two clusters": (
        "05-two-clusters.txt", ("--set", "cluster=alpha"), {SIZE, FEW}, "a job of another cluster",
    ),
    "limits missing": (
        "07-limits-missing-in-two-thirds.txt", ("--set", "processors=128"),
        {FEW, "requests_are_run_times"},
        "No time limit is known for 40 jobs (67% of them, 78% of the work)",
    ),
    "GPUs": (
        "09-gpus.txt", ("--set", "processors=128"), {FEW, "gpus"},
        "30 jobs (50% of them, 64% of the work) held GPUs",
    ),
    "runaway": (
        "14-runaway.txt", ("--set", "processors=128"), {FEW},
        "job 9000 for 400 days, 2,462 times its limit",
    ),
    "eligible later": (
        "16-eligible-later-and-partitions.txt", ("--set", "processors=64"), {"partitions_pooled"},
        "the user's mean wait is 3.00 h, the scheduler's 0",
    ),
    "limit in minutes": (
        "42-limit-in-minutes.csv", (), {SIZE}, "104 is the most in use at one moment",
    ),
    "waits in seconds named queue": (
        "44-queue-is-a-wait.csv", (), {SIZE, "requests_are_run_times", "gpus"},
        "450 jobs (100% of them, 100% of the work) held GPUs",
    ),
    "nodes": (
        "32-maxnodes-only.swf", (), {SIZE, FEW, "overloaded", "replay"},
        "nodes are not processors, and 128 is the largest job",
    ),
    "half of the waits": (
        "36-waits-half-unknown.swf", (), {"unknown_waits"},
        "The waits of 120 of 242 jobs are unknown, 50 % of the work",
    ),
    "no requested times": (
        "37-no-requested-times.swf", (), {"requests_are_run_times", "replay"},
        "requested_s is the run time, so that rules that read it know how long jobs run",
    ),
    "no starts and no size": (
        "48-no-starts-no-size.toml", (),
        {SIZE, "requests_are_run_times", "overloaded", "no_wait_times"},
        "16 is the largest job, so that the cluster may be too small",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the logs, beside which mappings are written."""
    here = tmp_path_factory.mktemp("logs")
    for file in beside_traces("cases/logs").iterdir():
        if file.is_file():
            shutil.copy(file, here)
    return here


@pytest.fixture(scope="module")
def answer(folder):
    """Return the page of a fault, which is written once."""
    found = {}

    def page(fault):
        if fault not in found:
            file, options = folder / FAULTS[fault][0], FAULTS[fault][1]
            if file.suffix == ".csv":
                assert main(["init", str(file)]) == 0
                file = file.with_suffix(".toml")
            found[fault] = Answer(file, folder / fault, *options, *RULES)
        return found[fault]

    return page


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(of, marks=pytest.mark.slow if of == "half of the waits" else
                     pytest.mark.nightly) for of in FAULTS
    ],
)  # fmt: skip
def test_the_fault_of_a_log_is_said_and_nothing_is_concluded(answer, fault):
    page, (_, _, codes, said) = answer(fault).is_honest(), FAULTS[fault]
    assert {caveat["code"] for caveat in page.json["disqualifiers"]} == codes
    assert said in page.page
    if SIZE in codes:  # a log in SWF takes no setting
        assert "(--set processors=N; for SWF, MaxProcs of the header" in page.page
    expected = "Cannot be judged" if codes else "Nearly nobody waits"
    assert (page.json["badge"], page.json["colour"]) == (expected, "grey")


@pytest.mark.slow
def test_unknown_waits_are_no_zero(answer):
    """Every known wait is an hour, of which two jobs had waited a part when the run began."""
    page = answer("half of the waits")
    assert page.json["jobs"]["unknown waits"] == 120
    assert page.json["record"]["mean_wait_s"] == pytest.approx(3600, rel=0.01)
    assert page.jobs("recorded").height == 242


@pytest.mark.nightly
def test_a_scheduler_that_starts_every_job_at_once_has_no_wait(answer):
    """The holds of the log are the user's wait alone, and of no rule a gain."""
    page = answer("eligible later")
    assert page.json["record"]["scheduler_mean_wait_s"] == 0
    assert page.json["record"]["mean_wait_s"] == 10_800
    assert page.json["nearness"]["grade"] == "-"
    assert page.mean("fcfs_easy", "mean_wait_s") == pytest.approx(10_800)


@pytest.mark.nightly
def test_rules_of_a_log_without_requests_are_marked(answer):
    """Whatever reads a requested time knows the run time there."""
    page = answer("no requested times")
    markup = (page.out / "whatif.html").read_text()
    rows = [text_of(row) for row in re.findall(r'<th scope="row".*?</th>', markup, re.DOTALL)]
    for name in ("fcfs_easy", "sjf_easy", "saf_easy", "saf_clairvoyant"):
        of_rule = [row for row in rows if row.split()[:1] == [name]]
        assert of_rule
        assert all("knows run times" in row for row in of_rule), of_rule
