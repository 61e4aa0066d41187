"""Tests of the badge: worked cases, spoilt ones, and a thousand random ones beside the rules."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.whatif.verdict import (
    FEWEST_JOBS,
    Difference,
    Evidence,
    choose,
    difference_sd,
    verdict,
)
from hindcast.pipeline.workloads.caveats import Caveat
from tests.conftest import require_traces

WORDS = {"Gain": "green", "Gain with a price": "yellow", "Worse": "red"}
BAD = Caveat(
    "unknown_waits", "the waits of 9 % of the work are unknown; what would mend it: their starts"
)


def clear_gain(**changes):
    """Return evidence for a clear difference, in the run and on windows, without a price."""
    run = Difference("run", 10.0, 50.0)
    windows = Difference("windows", 12.0, 40.0, 20, -35.0, -20.0)
    return replace(Evidence("saf_easy", "rule", "recorded", run, windows, 2.0, "A"), **changes)


def test_worked_badges():
    """Six logs of known schedulers, with the badge that an independent program gives them."""
    table = pl.read_csv(require_traces("../cases/whatif/badge.csv"))
    assert table.height == 6
    for row in table.iter_rows(named=True):
        ends = (row["windows"], row["difference_low"], row["difference_high"])
        evidence = Evidence(
            row["rule"],
            "rule",
            "recorded",
            Difference("run", row["run_rule"], row["run_log"]),
            Difference("windows", row["windows_rule"], row["windows_log"], *ends),
            row["shake_sd_known"],
            "A",
            ratios={
                "p99_wait_s": row["p99"],
                "max_wait_s": row["longest"],
                "mean_slowdown_wide": row["wide"],
                "mean_slowdown_long": row["long"],
            },
        )
        assert verdict(evidence).badge == row["badge"], row["case"]
        assert verdict(replace(evidence, letter="D")).colour == "grey"
        assert verdict(replace(evidence, disqualifiers=(BAD,))).badge == "Cannot be judged"


def test_a_clear_difference_is_told_with_policy_opponent_scope_share_and_interval():
    told = verdict(clear_gain())
    assert (told.badge, told.colour, told.reasons) == ("Gain", "green", ())
    assert told.sentence == (
        "Over 20 windows, saf_easy has 70 % less mean bounded slowdown than your scheduler "
        "(12.0 for 40.0, 95 % interval of the difference -35.0 .. -20.0)."
    )


def test_a_price_stands_in_the_same_sentence():
    told = verdict(clear_gain(ratios={"mean_slowdown_wide": 2.1, "p99_wait_s": 1.2}))
    assert told.badge == "Gain with a price"
    assert "than your scheduler" in told.sentence
    assert told.sentence.endswith("the slowdown of wide jobs is 2.10 times as large.")
    assert "p99" not in told.sentence  # not more than 20 % longer


@pytest.mark.parametrize(
    ("changes", "badge", "says"),
    [
        ({"disqualifiers": (BAD,)}, "Cannot be judged", "mend it: their starts"),
        ({"jobs": 399}, "Cannot be judged", "399 jobs"),
        ({"replay_error": 0.011}, "Cannot be judged", "1.1 % off"),
        ({"kind": "knows run times"}, "Cannot be judged", "no scheduler knows"),
        ({"changed": True}, "Cannot be judged", "different worlds"),
        ({"letter": ""}, "Cannot be judged", "does not say when jobs started"),
        (
            {"letter": "-", "without_wait": 0.97, "mean_wait_s": 20.0},
            "Nearly nobody waits",
            "97 % of the log's jobs start without a wait, and the mean wait is 20.0 s",
        ),
        ({"letter": "C", "failing": "jobs hold more"}, "Not about your scheduler", "jobs hold"),
        ({"letter": "D", "failing": "jobs hold more"}, "Not about your scheduler", "grade D"),
        ({"opponent": "lxf_easy"}, "Not about your scheduler", "On the simulated machine"),
        ({"run": Difference("run", 60.0, 50.0)}, "Depends on the view", "60.0 for 50.0"),
        (
            {"windows": Difference("windows", 12.0, 40.0, 20, -60.0, 1.0)},
            "No clear difference",
            "-60.0 .. +1.0",
        ),
        (
            {"windows": Difference("windows", 12.0, 40.0, 3, -35.0, -20.0)},
            "No clear difference",
            "no difference is certain",
        ),
        ({"windows": None}, "No clear difference", "no difference is certain"),
        ({"shake_sd": 20.0}, "No clear difference", "standard deviation of 20.0"),
        ({"shake_sd": None}, "No clear difference", "no difference is certain"),
    ],
)
def test_one_fault_takes_the_colour(changes, badge, says):
    told = verdict(clear_gain(**changes))
    assert (told.badge, told.colour) == (badge, "grey")
    assert says in told.sentence
    assert told.reasons


def test_more_slowdown_is_worse():
    run, windows = Difference("run", 50.0, 10.0), Difference("windows", 40.0, 12.0, 20, 20.0, 35.0)
    told = verdict(clear_gain(run=run, windows=windows, ratios={"p99_wait_s": 3.0}))
    assert (told.badge, told.colour) == ("Worse", "red")
    assert "233 % more mean bounded slowdown than your scheduler" in told.sentence


def test_a_refused_agent_is_not_named():
    told = verdict(clear_gain(policy="evolution-seed1", kind="refused agent"))
    assert told.badge == "Cannot be judged"
    assert "evolution" not in told.sentence


def test_a_poor_machine_is_told_with_two_simulated_policies_and_not_with_the_record():
    aside = Difference("run", 7.9, 20.0)
    poor = clear_gain(letter="D", failing="jobs wait while every job fits", aside=aside)
    told = verdict(replace(poor, aside_name="fcfs_easy"))
    assert told.sentence == (
        "The simulated machine is not yours (grade D): jobs wait while every job fits; on the "
        "simulated machine, in the run, saf_easy has 60 % less mean bounded slowdown than "
        "fcfs_easy (7.90 for 20.0)."
    )


def test_the_candidate_is_the_best_rule_or_delivered_agent_of_the_log_before():
    means = {"recorded": 1.0, "a": 3.0, "b": 2.0, "c": 2.0, "agent": 1.5, "oracle": 0.5}
    kinds = {
        "recorded": "rule",
        "a": "rule",
        "b": "rule",
        "c": "rule",
        "agent": "refused agent",
        "oracle": "knows run times",
    }
    assert choose(means, kinds) == "b"
    assert choose(means, {**kinds, "agent": "agent"}) == "agent"
    assert choose({"oracle": 0.5}, kinds) is None


def test_the_known_scheduler_stands_for_the_record_in_shakes():
    shaken = {
        "a_easy": np.array([1.0, 2.0, 3.0]),
        "b_easy": np.array([2.0, 2.0, 5.0]),
        "c": np.array([0.0, 9.0, 0.0]),
    }
    alone, other = np.std([1, 2, 3], ddof=1), np.std([2, 2, 5], ddof=1)
    assert difference_sd(shaken, "a_easy", "b_easy", "") == pytest.approx(np.std([1, 0, 2], ddof=1))
    assert difference_sd(shaken, "a_easy", "recorded", "b_easy") == pytest.approx(1.0)
    either = math.hypot(alone, (alone + other) / 2)
    assert difference_sd(shaken, "a_easy", "recorded", "") == pytest.approx(either)
    assert difference_sd(shaken, "d", "recorded", "") is None
    assert difference_sd(shaken, "a_easy", "d", "") is None


def any_evidence(rng):
    """Return random evidence, of which a good part has no fault or a single one."""

    def pick(*options, usual=0.75):
        return options[0] if rng.random() < usual else options[rng.integers(len(options))]

    sign = pick(1.0, -1.0)
    scopes = []
    for scope, blocks in (("run", pick(6, 1, 3)), ("windows", pick(20, 3))):
        theirs = rng.uniform(5, 100)
        mine = theirs * (1 - sign * rng.uniform(-0.1, 0.9))
        half = rng.uniform(0.2, 1.4) * abs(theirs - mine)
        scopes.append(
            Difference(scope, mine, theirs, blocks, mine - theirs - half, mine - theirs + half)
        )
    run, windows = scopes
    return Evidence(
        policy="candidate",
        run=run,
        windows=pick(windows, None, usual=0.95),
        kind=pick("rule", "agent", "refused agent", "knows run times"),
        opponent=pick("recorded", "lxf_easy"),
        shake_sd=pick(rng.uniform(0, 30), None, 0.0),
        letter=pick("A", "B", "C", "D", "-", ""),
        failing="the measurement",
        disqualifiers=pick((), (BAD,)),
        ratios={"p99_wait_s": rng.uniform(0.5, 1.5), "mean_slowdown_wide": rng.uniform(0.5, 1.5)},
        jobs=pick(2000, 100),
        replay_error=pick(0.0, 0.2),
        changed=rng.random() < 0.1,
        before=rng.random() < 0.8,
        aside=pick(run, None),
        aside_name="other",
    )


def allowed(of):
    """Return whether a word of gain or loss is allowed, as the rules say it, without a table."""
    scopes = [of.run, of.windows]
    return (
        of.windows is not None
        and of.opponent == "recorded"
        and of.letter in {"A", "B"}
        and of.kind in {"rule", "agent"}
        and not of.disqualifiers
        and of.jobs >= FEWEST_JOBS
        and of.replay_error <= 0.01
        and not of.changed
        and np.sign(of.run.value) == np.sign(of.windows.value)
        and any(s.blocks >= 4 and (s.high < 0 or s.low > 0) for s in scopes)
        and of.shake_sd is not None
        and abs(of.run.value) > 2 * of.shake_sd
    )


@pytest.mark.slow
def test_no_colour_without_leave_and_badge_and_sentence_agree():
    rng = np.random.default_rng(4)
    seen = {}
    for _ in range(1500):
        of = any_evidence(rng)
        told = verdict(of)
        seen[told.badge] = seen.get(told.badge, 0) + 1
        assert (told.badge in WORDS) == allowed(of)
        assert told.colour == WORDS.get(told.badge, "grey")
        assert "gain" not in told.sentence.lower()
        claims = "than your scheduler (" in told.sentence
        assert claims == (told.badge in {*WORDS, "Depends on the view"})
        if told.badge in WORDS:
            less = "% less mean bounded slowdown" in told.sentence
            assert less == told.badge.startswith("Gain") == (of.run.value < 0)
            costly = any(ratio > 1.2 for ratio in of.ratios.values())
            assert ("price" in told.sentence) == (told.badge == "Gain with a price")
            assert (told.badge == "Gain") == (less and not costly)
            assert ("after the fact" in told.sentence) == (not of.before)
        # Whatever is known in addition, one more fault never gives it a colour.
        for more in ({"disqualifiers": (*of.disqualifiers, BAD)}, {"letter": "C"}, {"jobs": 10}):
            assert verdict(replace(of, **more)).colour == "grey"
    assert len(seen) == 8
    assert min(seen.values()) >= 10
