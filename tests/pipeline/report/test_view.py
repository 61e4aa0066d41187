"""Tests of the page of schedules: what is drawn is the data, rows are enough, names do no harm."""

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.evaluate import make_job
from hindcast.pipeline.pages.templates import STYLE
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.report.view import page as pages
from hindcast.pipeline.report.view.coding import coded, scale_of
from hindcast.pipeline.report.view.model import model_of
from hindcast.pipeline.report.view.packing import pack
from hindcast.pipeline.report.view.page import page_of, write_view
from hindcast.pipeline.schedules.difference import compare_window
from hindcast.pipeline.schedules.schedule import (
    Schedule,
    make_schedule,
    read_schedule,
    write_schedule,
)
from hindcast.pipeline.schedules.windows import schedule_window
from hindcast.policies.entrants import entrants
from tests.made_schedules import made_schedule
from tests.pipeline.report.view_pages import (
    HOSTILE,
    Elements,
    drawn_jobs,
    held,
    hostile_pair,
    overlaps,
    rectangles_of,
)

VIEW = Path(pages.__file__).parent
# recipe, settings, policies: rows packed by the page, machines with fractions of seconds, slots
PLAYED = {
    "queue-lublin1-v1": (["config.jobs=64", "config.follow=30"], ["fcfs_easy", "saf_easy"]),
    "binpack-synthetic-v1": (["config.jobs_per_window=8"], ["tetris", "first_fit"]),
    "slots-demo-v1": ([], ["sjf_reserve", "packer_now"]),
}


@pytest.fixture(scope="module", params=PLAYED)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Return two schedules of a window, from their files."""
    folder = tmp_path_factory.mktemp("played")
    options, policies = PLAYED[request.param]
    recipe = load_recipe(request.param, options)
    job = make_job(recipe, "test", folder / "unused")
    found = []
    for entrant in entrants(recipe, policies):
        path = folder / f"{entrant.behaviour.name}.parquet"
        write_schedule(schedule_window(job, entrant.behaviour, job.windows[1]), path)
        found.append(read_schedule(path))
    return found


def test_rectangles_of_the_page_are_the_jobs_of_the_file(played, tmp_path):
    data = held(write_view(played, tmp_path / "view.html").read_text("utf-8"))
    for which, schedule in enumerate(played):
        found = rectangles_of(data, which)
        assert found.height >= drawn_jobs(schedule).height > 20
        whole = found.group_by("job", "part", "start_s", "end_s").agg(
            processors=pl.col("height").sum()
        )
        wanted = drawn_jobs(schedule)
        assert whole.select(wanted.columns).sort("job", "part").equals(wanted)


@pytest.mark.slow
def test_rectangles_of_further_resources_are_the_jobs_of_the_file(played):
    data, schedules = held(page_of(model_of(played))), played
    names = [name for name, _ in data.facts["resources"]]
    several = len(schedules[0].resources) > 1
    assert names == [schedules[0].facts["unit"], *schedules[0].resources[1:]] * several
    for which, schedule in enumerate(schedules):
        for k, name in enumerate(names[1:], 1):
            found = rectangles_of(data, which, k)
            facts = data.facts["resources"][k][1][which]
            assert facts["capacity"] == schedule.facts["capacity"][name]
            assert not overlaps(found, facts["rows"])
            whole = found.group_by("job", "part", "start_s", "end_s").agg(
                pl.col("height").sum().alias(name)
            )
            wanted = drawn_jobs(schedule, name)
            assert wanted.height > 20
            assert whole.select(wanted.columns).sort("job", "part").equals(wanted)


def test_no_row_is_taken_twice(played):
    data = held(page_of(model_of(played)))
    for which, schedule in enumerate(played):
        found = rectangles_of(data, which)
        assert not overlaps(found, schedule.capacity)
        machines = schedule.facts["machines"].get("processors", [])
        tops = np.cumsum(machines)
        place = {
            (job, part or 0): machine
            for job, part, machine in schedule.jobs.select("job", "part", "machine").iter_rows()
        }
        for job, part, low, height in found.select("job", "part", "low", "height").iter_rows():
            if machines:  # a rectangle lies whole on the machine of its job
                [machine] = place[job, part]
                assert tops[machine] - machines[machine] <= low <= low + height <= tops[machine]


def test_other_columns_of_the_page_are_those_of_the_file(played):
    data = held(page_of(model_of(played)))
    of, facts = data.columns, data.facts
    for which, schedule in enumerate(played):
        jobs = schedule.jobs.sort("submit_s", "job", "part")
        row = np.setdiff1d(np.arange(facts["count"]), of[f"absent{which}"])
        assert (of["job"][row] == jobs["job"].to_numpy()).all()
        assert (of[f"submit{which}"][row] == jobs["submit_s"].to_numpy()).all()
        assert (of[f"eligible{which}"][row] == jobs["eligible_s"].to_numpy()).all()
        wait = np.full(facts["count"], np.nan)
        wait[row] = of[f"wait{which}"][row]
        for name in ("never", "uncounted"):
            wait[of[f"{name}{which}"]] = np.nan
        assert np.array_equal(wait[row], jobs["wait_s"].to_numpy(), equal_nan=True)
        for name, words in facts["words"].items():
            texts = [None, *words]
            assert [texts[i] for i in of[name][row]] == jobs[name].to_list()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_packing_never_takes_more_rows_than_there_are(data):
    """Jobs that find too few free rows are left out, and no others."""
    count, rows = data.draw(st.integers(0, 30)), data.draw(st.integers(1, 12))
    numbers = st.lists(st.integers(0, 20), min_size=count, max_size=count)
    start = np.array(data.draw(numbers), float)
    end = start + np.array(data.draw(numbers), float)
    amount = np.array(data.draw(numbers), np.int64) % 14 + 1
    found = pack(start, end, amount, rows)
    frame = pl.DataFrame({
        "start_s": start[found.job], "end_s": end[found.job],
        "low": found.low, "height": found.height,
    })  # fmt: skip
    assert not overlaps(frame, rows)
    total = np.bincount(found.job, found.height, minlength=count)
    drawn = np.setdiff1d(np.arange(count), found.left_out)
    assert (total[drawn] == amount[drawn]).all()
    assert not total[found.left_out].any()
    if len(found.left_out):
        held_at = [(amount * ((start <= t) & (t < end))).sum() for t in start[found.left_out]]
        alone = amount[found.left_out] > rows
        assert (alone | (np.array(held_at) > rows)).all()


def test_a_job_without_a_gap_is_cut_and_the_page_says_so():
    """Rows 0 and 2 are free when job 3 starts: it lies in both."""
    start, end = np.array([0.0, 0, 0, 5]), np.array([5.0, 9, 5, 8])
    found = pack(start, end, np.array([1, 1, 1, 2]), 3)
    assert found.low[found.job == 3].tolist() == [0, 2]
    schedule = made_schedule(40, rows=256)
    page = Elements(page_of(model_of([schedule])))
    assert "This page packs the rows" in page.text


def test_more_than_the_machine_is_left_out_and_the_page_says_so():
    schedule = made_schedule(40)
    facts = {**schedule.facts, "capacity": {"processors": 8}}
    model = model_of([Schedule(schedule.jobs, facts)])
    left = len(model.rectangles[0].left_out)
    assert left > 0
    text = " ".join(Elements(page_of(model)).text.split())
    assert f"{left} jobs of fcfs are not drawn" in text
    assert not overlaps(rectangles_of(held(page_of(model)), 0), 8)


@pytest.mark.parametrize(
    ("times", "scale"), [([1.0, 2e9], 1), ([0.5, 1e6], 10), ([1.2345, 9.0], 10_000), ([1 / 3], 0)]
)
def test_times_are_kept_with_all_their_digits(times, scale):
    column = np.array(times)
    assert scale_of([column]) == scale
    assert coded(column, scale=scale).scale == scale
    schedule = made_schedule(20)
    moved = schedule.jobs.with_columns(pl.col("start_s", "end_s") + times[0] - 1)
    data = held(page_of(model_of([Schedule(moved, schedule.facts)])))
    drawn = rectangles_of(data, 0).unique("job").sort("job")
    assert (drawn["start_s"] == moved["start_s"]).all()
    assert (drawn["end_s"] == moved["end_s"]).all()


def test_names_of_a_log_are_text_wherever_they_stand():
    page = page_of(model_of(hostile_pair()))
    elements = Elements(page)
    assert not {"img", "b"} & {tag for tag, _ in elements.tags}
    assert not [name for _, about in elements.tags for name in about if name.startswith("on")]
    assert HOSTILE[0] in elements.text
    assert "\u2028" not in page
    data = held(page)
    assert data.facts["names"] == [HOSTILE[i % len(HOSTILE)] for i in range(18)]
    assert set(data.facts["words"]["user"]) == set(HOSTILE)


def test_only_the_scripts_and_styles_of_the_project_may_run():
    """The page's policy allows them by their hashes, and nothing that is fetched."""
    elements = Elements(page_of(model_of(hostile_pair())))
    [policy] = [
        about["content"] for _, about in elements.tags
        if about.get("http-equiv") == "Content-Security-Policy"
    ]  # fmt: skip
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules.keys() == {"default-src", "img-src", "script-src", "style-src"}
    for tag in ("script", "style"):
        hashes = [
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for name, about, text in elements.code
            if name == tag and about.get("id") != "data"
        ]
        assert len(hashes) == 3
        assert rules[f"{tag}-src"].split() == hashes
    assert not [about for _, about in elements.tags if about.get("src")]
    links = [about["href"] for _, about in elements.tags if about.get("href")]
    assert all(link.startswith(("#", "data:,")) for link in links)


@pytest.mark.slow
@pytest.mark.nightly
def test_fifty_thousand_jobs_twice_are_less_than_two_megabytes():
    schedules = [made_schedule(50_000, policy, 2048) for policy in ("fcfs", "saf")]
    page = page_of(model_of(schedules))
    assert len(page.encode()) <= 2_000_000
    assert held(page).facts["count"] == 50_000


def test_the_code_of_the_page_stays_small():
    assert sum((VIEW / name).stat().st_size for name in ("gantt.js", "moves.js")) <= 25_000
    assert sum((VIEW / name).stat().st_size for name in pages._MODULE) <= 46_000
    assert "MIT License" in (VIEW / "uplot" / "LICENSE").read_text("utf-8")


def test_schedules_of_different_jobs_are_refused():
    one, other = made_schedule(20), made_schedule(20)
    for key, value in (("window", 7), ("source", {"digest": "cd" * 32}), ("scenario", "slots")):
        with pytest.raises(InputError, match=f"are of different jobs .{key} is"):
            model_of([one, Schedule(other.jobs, {**other.facts, key: value})])


def test_jobs_of_one_schedule_only_are_in_neither_more_nor_less():
    one, other = made_schedule(30), made_schedule(30, "saf")
    fewer = Schedule(other.jobs.filter(pl.col("job") % 3 > 0), other.facts)
    data = held(page_of(model_of([one, fewer])))
    assert data.facts["count"] == 30
    assert (data.columns["job"][data.columns["absent1"]] % 3 == 0).all()
    assert len(data.columns["absent1"]) == 10
    assert set(rectangles_of(data, 1)["job"]) == set(fewer.jobs["job"])


def test_the_page_says_what_its_numbers_are():
    one, other = made_schedule(200), made_schedule(200, "saf")
    moved = (one.jobs["start_s"] != other.jobs["start_s"]).sum()
    later = (other.jobs["start_s"] > one.jobs["start_s"]).sum()
    text = " ".join(Elements(page_of(model_of([one, other]))).text.split())
    assert f"saf starts {moved} of 200 jobs at another moment than fcfs" in text
    assert f"{moved - later} earlier and {later} later" in text
    assert "its differences have no interval" in text
    unknown = one.jobs.with_columns(wait_s=None, bounded_slowdown=None, requested_s=None)
    unknown = unknown.cast(dict(one.jobs.schema))
    text = " ".join(Elements(page_of(model_of([replace(one, jobs=unknown)]))).text.split())
    assert "The mean wait is n/a under fcfs" in text  # unknown, not 0
    assert "200 jobs without a requested time have their run time there" in text


def test_the_first_decision_that_differs_is_on_the_page():
    options, names = PLAYED["queue-lublin1-v1"]
    recipe = load_recipe("queue-lublin1-v1", options)
    job = make_job(recipe, "test", Path("unused"))
    a, b = (entrant.behaviour for entrant in entrants(recipe, names))
    window = next(w for w in job.windows if compare_window(job, w, a, b).first)
    comparison = compare_window(job, window, a, b)
    elements = Elements(page_of(model_of(comparison.schedules), comparison))
    text = " ".join(elements.text.split())
    assert comparison.first.sentence in text
    assert comparison.costliest[0].sentence in text
    links = [about["href"] for _, about in elements.tags if "#t=" in (about.get("href") or "")]
    assert len(links) == 1 + len(comparison.costliest)
    low, high = re.match(r"#t=(.*)\.\.([^&]*)", links[0]).groups()
    assert float(low) < comparison.first.at_s < float(high)
    for one in comparison.first.candidates:
        assert one.text in text


def colours(*, dark: bool) -> dict[str, str]:
    """Return the colours of both style sheets by name."""
    found: dict[str, str] = {}
    for path in (STYLE, VIEW / "view.css"):
        light, night = re.findall(r":root \{(.*?)\}", path.read_text("utf-8"), re.DOTALL)[:2]
        found.update(re.findall(r"--([\w-]+): (#\w{6});", light))
        if dark:
            found.update(re.findall(r"--([\w-]+): (#\w{6});", night))
    return found


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it."""
    parts = [[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in (one, other)]
    light = sorted(
        0.05 + sum(
            weight * (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4)
            for weight, x in zip((0.2126, 0.7152, 0.0722), part, strict=True)
        )
        for part in parts
    )  # fmt: skip
    return light[1] / light[0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_contrasts_are_those_of_wcag_aa(dark):
    """Text has 4.5, shapes have 3; names on jobs are black or white, see gantt.js."""
    of = colours(dark=dark)
    jobs = [
        n
        for n in of
        if n.startswith(("ramp-", "early-", "late-", "line-")) or n in {"same", "alone"}
    ]
    assert len(jobs) == 6 + 3 + 3 + 8 + 2
    for name in jobs:
        assert contrast(of[name], of["card"]) >= 3, name
        assert max(contrast(of[name], ink) for ink in ("#000000", "#ffffff")) >= 4.5, name
    for ink, paper in (
        ("ink", "card"), ("muted", "card"), ("muted", "page"), ("muted", "soft"),
        ("learned", "card"), ("learned", "learned-soft"), ("ink", "strongest-soft"),
    ):  # fmt: skip
        assert contrast(of[ink], of[paper]) >= 4.5, (ink, paper)


def test_a_resource_that_is_not_known_of_every_job_is_not_drawn_as_if_it_were_0():
    of = made_schedule(20)
    facts = {**of.facts, "per_unit": {"processors": 1, "memory": 1},
             "capacity": {**of.facts["capacity"], "memory": 99}}  # fmt: skip
    part = pl.when(pl.col("job") > 2)
    known = make_schedule(of.jobs.with_columns(memory=part.then(5).otherwise(0)), facts)
    assert "fcfs: 3 jobs hold no memory: no rectangle." in page_of(model_of([known]))
    unknown = make_schedule(of.jobs.with_columns(memory=part.then(5)), facts)
    assert not model_of([unknown]).further
