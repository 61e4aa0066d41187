"""Why a job waited: every number is that of a plain count, moment by moment."""

from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.evaluate import make_job
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.schedules.reasons import why
from hindcast.pipeline.schedules.schedule import make_schedule
from hindcast.pipeline.schedules.windows import schedule_window
from hindcast.policies.entrants import entrants

_FACTS = {
    "policy": "by hand", "scenario": "queue", "source": {"log": "a", "digest": "0" * 64},
    "window": None, "seed": None, "capacity": {"processors": 4}, "per_unit": {"processors": 1},
    "unit": "processors", "levels": {}, "machines": {}, "machine": None, "clock": "s",
    "from_s": 0.0, "to_s": 100.0, "epoch": None,
}  # fmt: skip

_CAME = (
    "Job D (2 processors) could start from day 1, 00:00:07 on and started at day 1, 00:01:10, "
    "63 s later."
)
_HELD = (
    "When it came, other jobs held 4 of 4 processors, most of them job A (3 until day 1, 00:00:40) "
    "and job C (1 until day 1, 00:00:45). 1 of the waiting jobs had come before it."
)
_STILL = (
    "Then job B (4 processors), which had come before it, still waited; that job started at "
    "day 1, 00:01:00."
)


def _by_hand():
    """A holds 3 of 4 to 40. B (4) comes at 5, C (1) at 6: C starts, B not before 60.

    D (2) comes at 7, would fit from 40 to 45 beside C, and starts at 60 with nobody.
    """
    rows = [("A", 0, 0, 0, 40, 3), ("B", 5, 5, 60, 70, 4), ("C", 6, 6, 6, 45, 1),
            ("D", 7, 7, 70, 80, 2), ("E", 8, 8, 45, 60, 4), ("F", 9, 9, None, None, 4)]  # fmt: skip
    columns = ("name", "submit_s", "eligible_s", "start_s", "end_s", "processors")
    jobs = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        job=pl.int_range(pl.len()), counted=True, wait_s=pl.col("start_s") - pl.col("eligible_s"),
        bounded_slowdown=1.0,
    )  # fmt: skip
    return make_schedule(jobs, _FACTS)


def test_the_reasons_of_a_schedule_by_hand():
    found = why(_by_hand(), "D")
    assert (found.since_s, found.start_s, found.held) == (7, 70, 4)
    assert [one.name for one in found.holders] == ["A", "C"]
    assert (found.ahead, found.fits_s, found.fitting_s) == (1, 40, 5)
    assert found.lacked_s == {"processors": 58}
    assert (found.overtaken, [one.name for one in found.overtakers]) == (1, ["E"])
    assert found.waited_for.name == "B"
    assert [one.name for one in found.ended] == ["B"]
    assert found.sentences == (
        _CAME,
        _HELD,
        "Not enough was free for it: processors for 58 s.",
        "Enough was free first at day 1, 00:00:40, in all for 5 s, and it was not started then.",
        _STILL,
        "1 job that came later started before it, the largest job E (4 until day 1, 00:01:00).",
        "It started when job B (4) ended.",
    )


def test_a_job_that_starts_at_once_and_one_that_never_does():
    assert why(_by_hand(), "A").sentences == (
        "Job A (3 processors) could start from day 1, 00:00:00 on and started at once.",
    )
    found = why(_by_hand(), "F")
    assert (found.start_s, found.until_s) == (None, 100)
    assert "had not started when the play stopped, 91 s later" in found.sentences[0]


def test_what_was_never_free_is_said_once():
    said = " ".join(why(_by_hand(), "E").sentences)
    never = "At no moment before its start was enough free for it"
    assert f"{never}: it lacked processors for 37 s." in said
    assert "Not enough" not in said


def test_a_job_is_named_as_the_log_does_or_by_its_number():
    assert why(_by_hand(), "3").name == "D"
    with pytest.raises(InputError, match="no job 'DD' among the 6 of the schedule, as D is"):
        why(_by_hand(), "DD")


def _plainly(schedule, index):
    """Return first and whole time that enough was free, by looking at every change."""
    facts, jobs = schedule.facts, schedule.jobs.rows(named=True)
    own = jobs[index]
    since = max(own["eligible_s"], facts["from_s"])
    until = own["start_s"] if own["start_s"] is not None else facts["to_s"]
    others = [job for at, job in enumerate(jobs) if at != index and job["start_s"] is not None]
    changes = {since, until, *(job[name] for job in others for name in ("start_s", "end_s"))}
    changes |= {at for steps in facts["levels"].values() for at, _ in steps}
    moments = sorted(at for at in changes if since <= at <= until)
    first, total = None, 0.0
    places = [None] if not facts["machines"] else range(len(facts["machines"]["processors"]))
    for at, following in pairwise(moments):
        running = [job for job in others if job["start_s"] <= at < job["end_s"]]
        fits = False
        for place in places:
            enough = True
            for name in schedule.resources:
                room = facts["capacity"][name]
                if place is not None:
                    room = facts["machines"][name][place]
                for begin, amount in facts["levels"].get(name, []):
                    if begin <= at:
                        room = amount
                here = [job for job in running if place is None or place in job["machine"]]
                held = sum(job[name] for job in here)
                enough = enough and (own[name] == 0 or own[name] <= room - held)
            fits = fits or enough
        if fits:
            first = at if first is None else first
            total += following - at
    return first, total


@pytest.mark.parametrize(
    ("name", "settings", "policy"),
    [
        ("queue-lublin1-v1", ["config.jobs=64", "config.follow=30"], "saf_easy"),
        ("binpack-synthetic-v1", ["config.jobs_per_window=4"], "tetris"),
        ("deferrable-base-v1", ["config.horizon=30"], "tetris"),
        ("slots-demo-v1", [], "sjf_reserve"),
        ("multicluster-uniform-v1", ["config.applications=20"], "sf_e"),
        ("thermal-default-v1", ["config.jobs=60"], "min_heat"),
    ],
)
def test_when_enough_was_free_is_what_a_plain_count_says(name, settings, policy):
    recipe = load_recipe(name, settings)
    job = make_job(recipe, "test", Path("unused"))
    (entrant,) = entrants(recipe, [policy])
    schedule = schedule_window(job, entrant.behaviour, job.windows[1])
    rows = schedule.jobs.rows(named=True)
    waited = [row for row in rows if (row["wait_s"] or 0) > 0 and not row["part"]]
    assert waited
    for own in waited[:: max(1, len(waited) // 8)]:
        found = why(schedule, str(own["name"] or own["job"]))
        assert found.job == own["job"]
        index = next(at for at, row in enumerate(rows) if row["job"] == own["job"])
        first, total = _plainly(schedule, index)
        assert (found.fits_s, found.fitting_s) == (first, pytest.approx(total))
        assert found.held == sum(
            row["processors"] for at, row in enumerate(rows)
            if at != index and row["start_s"] is not None
            and row["start_s"] <= found.since_s < row["end_s"]
        )  # fmt: skip


def test_a_job_of_a_pool_waits_for_its_own_pool_alone():
    """The other pool is empty; that of A and D is held by A until 40."""
    whole = _by_hand()
    jobs = whole.jobs.filter(pl.col("name").is_in(["A", "D"])).with_columns(
        machine=pl.lit([0], dtype=pl.List(pl.Int64))
    )
    pools = {"machine": "pool", "machines": {"processors": [4, 8]}, "capacity": {"processors": 12}}
    found = why(type(whole)(jobs, {**whole.facts, **pools}), "D")
    assert (found.held, found.fits_s, found.lacked_s) == (3, 40, {"processors": 33})


def test_a_refused_job_neither_waits_nor_keeps_others_waiting():
    whole = _by_hand()
    facts = {**whole.facts, "scenario": "gpupack", "clock": "arrival"}
    refused = type(whole)(whole.jobs.filter(pl.col("name") != "B"), facts)
    [told] = why(refused, "F").sentences
    assert told == "Job F (4 processors) came at arrival 9 and was refused."
    assert why(refused, "D").ahead == 0


def test_the_number_of_a_job_may_be_any_text():
    with pytest.raises(InputError, match=r"no job '9+'"):
        why(_by_hand(), "9" * 60)
