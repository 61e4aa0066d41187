"""How well completed runs predict later ones: against a plain pass, and by hand."""

import numpy as np
import pytest

from hindcast.flows import cli
from hindcast.pipeline.whatif.predictable import PARTS, explained, meaning
from hindcast.pipeline.whatif.record import read_record
from tests.pipeline.scenarios.queue.test_queue import workload
from tests.pipeline.scenarios.queue.test_run_times import Learned, drawn
from tests.pipeline.whatif.records import by_hand

ROOT = __file__.partition("/tests/")[0]


def test_shares_are_those_of_a_plain_pass():
    """A weight is not bounded by the requested time here."""
    jobs = drawn(5, 400)
    found = explained(read_record(workload(*jobs)))
    learned, predicted = Learned(), []
    ends = sorted((submit + wait + run, row) for row, (submit, _, run, _, wait, _)
                  in enumerate(jobs))  # fmt: skip
    for submit, n, _, r, _, user in jobs:
        while ends and ends[0][0] <= submit:
            _, cpu, run, requested, _, who = jobs[ends.pop(0)[1]]
            learned.complete(who, cpu, requested, run)
        weight = 0.1
        for context, m, _ in learned.contexts(user, n, r):
            many, weights, _ = learned.sums[context]
            weight = (weights + m * weight) / (many + m)
        predicted.append(weight)
    weights = np.array([10 / max(job[2], 10) for job in jobs])
    errors = (weights - predicted) ** 2

    def share(part):
        return 1 - errors[part].sum() / ((weights[part] - weights[part].mean()) ** 2).sum()

    assert found.weight[3, 0] == pytest.approx(share(slice(None)), rel=1e-12)
    assert found.weight[3, 5] == pytest.approx(share(slice(300, 400)), rel=1e-12)
    assert found.weight[3, 0] > 0
    assert np.isnan(found.weight[:, PARTS.index("waited 1 h")]).all()  # nobody did
    assert (found.jobs, found.started, found.exact) == (400, True, False)


def test_the_second_of_two_jobs_is_predicted_from_the_first_by_hand():
    """Both request 100 s and run 50: ln run is ln 100 + ln 0.4, then nearer to ln 50."""
    record = by_hand(4, (0, 0, 50, 1), (50, 50, 50, 1), requested=[100, 100])
    ln = np.log(0.4) + (np.log(0.5) - np.log(0.4)) / 40.89
    found = explained(record)
    assert np.isnan(found.ln_run).all()  # they do not vary
    mixed = by_hand(4, (0, 0, 50, 1), (50, 50, 25, 1), requested=[100, 100])
    errors = np.array([np.log(0.4) - np.log(0.5), ln - np.log(0.25)])
    variation = (np.log(2) / 2) ** 2 * 2
    share = 1 - (errors**2).sum() / variation
    assert explained(mixed).ln_run[0, 0] == pytest.approx(share, rel=1e-12)
    assert "nothing to predict" in meaning(found)
    same = by_hand(4, (0, 0, 50, 1), (50, 50, 25, 1))
    assert "nothing is left to predict" in meaning(explained(same))


@pytest.mark.slow
def test_the_command_prints_both_tables_and_what_they_mean(capsys):
    assert cli.main(["behaviour", f"{ROOT}/examples/example.swf", "--runs"]) == 0
    out = capsys.readouterr().out
    assert "1,000 jobs" in out
    assert out.count("and of the same size") == 2
    assert "aged_expected and wsept" in out
    assert cli.main(["behaviour", f"{ROOT}/examples/example.swf", "--runs", "--out", "x"]) != 0
