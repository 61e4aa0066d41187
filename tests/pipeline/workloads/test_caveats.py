"""Tests of caveats: when they are found, and what they say."""

import re
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads import log_caveats, log_units
from hindcast.pipeline.workloads.schema import Provenance


def codes(found):
    return [caveat.code for caveat in found]


def test_rules_that_share_the_best_score_on_most_windows_are_tied():
    tied, apart = [1.0, 1.0, 1.2, 1.3], [1.0, 1.2, 1.3, 1.4]
    assert codes(cv.ties(np.array([tied, tied, apart]).T, higher=False)) == ["ties"]
    assert cv.ties(np.array([tied, apart]).T, higher=False) == ()
    caveat = cv.ties(np.array([tied, tied, apart]).T, higher=False)[0]
    assert caveat.numbers == {"tied_windows": 2, "windows": 3, "rules": 4}
    assert caveat.text.startswith("on 2 of 3 windows, at least half of the 4 rules")


def test_only_the_best_score_counts_for_ties():
    """Rules that are equally bad compete with the one that is better."""
    scores = np.array([[1.0], [1.0], [1.0], [0.5]])
    assert cv.ties(scores, higher=False) == ()
    assert codes(cv.ties(scores, higher=True)) == ["ties"]


@pytest.mark.parametrize("scores", [np.ones((2, 5)), np.ones((3, 0)), np.full((3, 4), np.nan)])
def test_two_rules_or_no_windows_say_nothing_about_ties(scores):
    assert cv.ties(scores, higher=False) == ()


def test_forced_decisions():
    assert codes(cv.forced(100, 90)) == ["forced"]
    assert cv.forced(100, 89) == ()
    assert cv.forced(0, 0) == ()


def test_jobs_count_as_left_only_if_every_policy_leaves_them():
    slow = ("slow", {"jobs": 10.0, "unfinished": 5.0, "truncated": 1.0})
    good = ("good", {"jobs": 90.0, "unfinished": 1.0, "truncated": 0.0})
    poor = ("poor", {"jobs": 90.0, "unfinished": 1.0, "left_out": 10.0, "truncated": 0.0})
    assert cv.unfinished([slow, good]) == ()
    caveat = cv.unfinished([slow, poor])[0]
    assert caveat.numbers == {"jobs_left": 0.11, "truncated": 0.0}
    assert "under poor, 11% of the jobs" in caveat.text


def test_truncated_episodes_count_where_jobs_are_not_counted():
    assert codes(cv.unfinished([("rule", {"unfinished": 7.0, "truncated": 0.2})])) == ["unfinished"]
    assert cv.unfinished([]) == ()


def test_thresholds_of_trace_and_rounding():
    assert cv.rounding(100.0, 149.0) == ()
    assert codes(cv.rounding(100.0, 150.0)) == ["rounding"]
    assert codes(cv.rounding(100.0, 50.0)) == ["rounding"]
    assert cv.trace_used(25, 100) == ()
    assert codes(cv.trace_used(24, 100)) == ["trace_used"]


def test_notes_of_readers_that_decide_are_caveats():
    notes = (
        "Computer: a cluster", "no wait time is known: in some logs ...",
        "the header names no MaxProcs or MaxNodes: 256 is the largest job",
        "caution: times are rounded to hours",
    )  # fmt: skip
    found = cv.of_provenance(Provenance("swf", notes=notes))
    assert codes(found) == ["no_wait_times", "no_cluster_size", "caution"]
    assert found[-1].text == "times are rounded to hours"


def test_json_gives_the_same_caveats():
    """The manifest that holds them is compared byte for byte with what would be written again."""
    found = (*cv.trace_used(1, 10), *cv.rounding(1.0, 1.7))
    again = cv.from_json(cv.to_json(found))
    assert again == found
    assert repr(cv.to_json(again)) == repr(cv.to_json(found))
    with pytest.raises(KeyError):
        cv.from_json([{"code": "ties"}])
    for number in ("1", True, float("inf"), 10**400):
        with pytest.raises(ValueError, match="number of a caveat"):
            cv.from_json([{"code": "ties", "text": "", "numbers": {"x": number}}])


def test_every_caveat_is_explained():
    """The page of the warnings has a row for each code."""
    page = (Path(__file__).parents[3] / "docs/how-to/read-the-warnings.md").read_text("utf-8")
    modules = (log_caveats, log_units)
    sources = [Path(module.__file__).read_text("utf-8") for module in (cv, *modules)]
    pattern = r'Caveat\("(\w+)"|"(some_\w+)"'
    written = {a or b for source in sources for a, b in re.findall(pattern, source)}
    named = {
        code
        for module in modules
        for name, code in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(code, str)
    }
    known = {*cv.NOTES.values(), "caution", cv.TIES, *named, *written}
    assert len(known) == 34
    assert {code for code in known if f"| `{code}` |" not in page} == set()
