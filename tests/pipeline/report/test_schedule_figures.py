"""Tests of pictures of schedules: what is drawn and counted is what the schedule says."""

import html
import itertools
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.pages.templates import STYLE
from hindcast.pipeline.report.schedule_figures import figures_of
from hindcast.pipeline.report.schedule_plots import boxes_of, gantt_plot, steps_of_wait
from hindcast.pipeline.report.view.model import model_of
from hindcast.pipeline.report.view.packing import rectangles
from hindcast.pipeline.report.view.page import page_of
from hindcast.pipeline.report.view.strips import (
    AREA,
    QUEUE,
    UTILISATION,
    WEEK_S,
    strips_of,
    whole,
    worst_part,
)
from hindcast.pipeline.schedules.schedule import Schedule, make_schedule
from tests.chromium import chromium, find_chromium
from tests.made_schedules import made_schedule
from tests.pipeline.report.view_pages import overlaps

SOME = {
    "plain": lambda: made_schedule(300),
    "saf": lambda: made_schedule(300, "saf", rows=64),
    "unknown requests": lambda: made_schedule(
        300, requested_s=pl.when(pl.col("job") % 3 == 0).then("requested_s")
    ),
    "never started": lambda: without_starts(made_schedule(300)),
    "changing capacity": lambda: with_facts(
        made_schedule(300), levels={"processors": [[0.0, 256], [100_000.0, 300], [400_000.0, 0]]}
    ),
    "slots": lambda: with_facts(
        without_starts(made_schedule(300, counted=pl.col("job") % 2 == 0)), scenario="slots"
    ),
}


def with_facts(schedule: Schedule, **facts) -> Schedule:
    return replace(schedule, facts={**schedule.facts, **facts})


def without_starts(schedule: Schedule) -> Schedule:
    """Return the schedule in which the last 40 jobs did not start before its end."""
    known = pl.col("job") < 260
    times = ("start_s", "end_s", "wait_s", "bounded_slowdown")
    jobs = schedule.jobs.with_columns(pl.when(known).then(n).alias(n) for n in times)
    return with_facts(Schedule(jobs, schedule.facts), to_s=float(jobs["start_s"].max()))


def weeks_of(*waits: float) -> Schedule:
    """Return a schedule with one job a week on one of two processors, which waits so long."""
    count = len(waits)
    submit = WEEK_S * np.arange(count) + 3600.0
    jobs = pl.DataFrame({
        "job": np.arange(count), "submit_s": submit, "eligible_s": submit,
        "start_s": submit + waits, "end_s": submit + waits + 7200.0, "processors": 1,
        "requested_s": 3600.0, "counted": True, "wait_s": [*waits], "bounded_slowdown": 1.0,
    })  # fmt: skip
    facts = {
        **made_schedule(3).facts, "capacity": {"processors": 2}, "epoch": None,
        "to_s": count * WEEK_S + 10.0,
    }  # fmt: skip
    return make_schedule(jobs, facts)


def counted_by_hand(schedule: Schedule, begin: float, end: float) -> dict[str, float]:
    """Return the means of the strips from every job in turn."""
    queue = area = held = 0.0
    rows = max(256 if "levels" not in schedule.facts else 0,
               schedule.facts["capacity"]["processors"],
               *(n for _, n in schedule.facts["levels"].get("processors", ())), 0)  # fmt: skip
    for job in schedule.jobs.iter_rows(named=True):
        start, stop = job["start_s"], job["end_s"]
        refused = start is None and schedule.facts["scenario"] == "slots" and not job["counted"]
        if not refused:
            left = end if start is None else start
            waited = max(0.0, min(left, end) - max(job["eligible_s"], begin))
            asked = job["requested_s"]
            asked = (0.0 if start is None else stop - start) if asked is None else asked
            queue, area = queue + waited, area + waited * job["processors"] * asked / rows / 3600
        if start is not None:
            held += max(0.0, min(stop, end) - max(start, begin)) * job["processors"]
    levels = schedule.facts["levels"].get("processors", [[0.0, rows]])
    edges = [*(since for since, _ in levels), np.inf]
    offered = sum(
        n * max(0.0, min(edges[i + 1], end) - max(since, begin))
        for i, (since, n) in enumerate(levels)
    )
    length = end - begin
    used = 100 * held / offered if offered else np.nan
    return {QUEUE: queue / length, UTILISATION: used, AREA: area / length}


@pytest.mark.parametrize("kind", SOME)
def test_strips_are_what_the_jobs_say_one_by_one(kind):
    schedule = SOME[kind]()
    edges = np.linspace(schedule.facts["from_s"], schedule.facts["to_s"], 12)
    found = strips_of(schedule, edges)
    for place, (begin, end) in enumerate(itertools.pairwise(edges)):
        for name, value in counted_by_hand(schedule, begin, end).items():
            assert found[name][place] == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), name


@pytest.mark.slow
def test_the_page_of_view_has_the_same_strips(tmp_path):
    """strips.js counts what strips.py counts."""
    find_chromium()
    with chromium() as browser:
        for kind, make in SOME.items():
            schedule = make()
            path = tmp_path / f"{kind}.html"
            path.write_text(page_of(model_of([schedule])))
            browser.show(path)
            first = schedule.jobs["submit_s"].min()  # the page shows nothing before it
            edges = np.linspace(first, schedule.facts["to_s"], 41)
            ticks = (edges - first).tolist()
            for which, name in enumerate((QUEUE, UTILISATION, AREA)):
                drawn = np.array(
                    browser.run(f"""(({{flows, capacityFlow}}) => {{
                  const [sum, room] = [flows[{which}].integral(), capacityFlow.integral()];
                  return {ticks}.map((t) => [sum(t), room(t)]);
                }})(hindcast.schedules[0])""")
                )
                sums, rooms = np.diff(drawn, axis=0).T
                with np.errstate(divide="ignore", invalid="ignore"):
                    means = 100 * sums / rooms if name == UTILISATION else sums / np.diff(edges)
                means[rooms <= 0] = np.nan
                found = np.where(rooms > 0, strips_of(schedule, edges)[name], np.nan)
                assert means == pytest.approx(found, rel=1e-6, abs=1e-6, nan_ok=True), (kind, name)


def test_moments_outside_of_the_schedule_are_unknown_and_not_0():
    schedule = made_schedule(50)
    end = schedule.facts["to_s"]
    found = strips_of(schedule, np.array([-10.0, 0.0, end, end + 10.0]))
    for values in found.values():
        assert np.isnan(values).tolist() == [True, False, True]


def test_the_worst_week_has_the_largest_waiting_area():
    found = worst_part(weeks_of(0.0, 7200.0, 3600.0, 0.0), WEEK_S)
    assert (found.number, found.parts, found.from_s, found.to_s) == (2, 4, WEEK_S, 2 * WEEK_S)
    # One hour asked for on one of two processors, for two hours of the week.
    assert found.area == pytest.approx(0.5 * 7200 / WEEK_S)
    assert found.mean == pytest.approx(0.5 * 10_800 / (4 * WEEK_S + 10))
    assert worst_part(weeks_of(0.0, 7200.0, 7200.0), WEEK_S).number == 2  # the first of equals
    assert worst_part(weeks_of(7200.0), WEEK_S) is None  # of one there is no choice


@pytest.mark.parametrize("kind", ["plain", "saf", "never started"])
@pytest.mark.parametrize("most", [10_000, 90])
def test_boxes_are_the_jobs_of_the_schedule_and_keep_to_the_machine(kind, most):
    schedule = SOME[kind]()
    begin, end = np.quantile(schedule.jobs["start_s"].drop_nulls().to_numpy(), [0.2, 0.8])
    of = boxes_of(schedule, rectangles(schedule), begin, end, most)
    inside = schedule.jobs.with_row_index("row").filter(
        (pl.col("start_s") < end) & (pl.col("end_s") > begin)
    )
    drawn = pl.DataFrame({
        "row": of.job, "start_s": of.left, "end_s": of.right, "low": of.low,
        "height": of.high - of.low,
    })  # fmt: skip
    assert overlaps(drawn, schedule.facts["capacity"]["processors"]) == 0
    assert len(of.job) <= most
    jobs = drawn.group_by("row").agg(pl.col("height").sum(), pl.col("start_s", "end_s").first())
    both = inside.join(jobs.cast({"row": pl.UInt32}), on="row", suffix="_drawn")
    assert both.height == jobs.height == inside.height - of.hidden - of.too_many
    assert (both["height"] == both["processors"]).all()
    assert (both["start_s_drawn"] == both["start_s"].clip(begin)).all()
    assert (both["end_s_drawn"] == both["end_s"].clip(upper_bound=end)).all()
    assert (of.hidden > 0) == (most == 90)
    area = inside.with_columns(
        area=(pl.col("end_s").clip(upper_bound=end) - pl.col("start_s").clip(begin))
        * pl.col("processors")
    )
    hidden = area.join(jobs.cast({"row": pl.UInt32}), on="row", how="anti")["area"].sum()
    assert of.hidden_share == pytest.approx(hidden / area["area"].sum())


_RECTANGLE = re.compile(r"M([-\d.]+) ([-\d.]+)h([-\d.]+)v([-\d.]+)h([-\d.]+)z")


def rectangles_in(plot: str) -> list[list[tuple[float, float, float, float, str]]]:
    """Return the rectangles of each panel: shares of its width and height, and the colour."""
    panels = []
    for d, clip, style in re.findall(
        r'<path d="([^"]*)"( clip-path="[^"]*")? style="([^"]*)"', plot
    ):
        boxes = [tuple(map(float, box)) for box in _RECTANGLE.findall(d)]
        if style == "fill: none; opacity: 0":  # of the picture, or of a panel
            panels.append((boxes[0], []))
        elif clip and "fill: var" in style:
            colour = re.search(r"fill: var\(--([\w-]+)\)", style)
            panels[-1][1].extend((*box, colour.group(1)) for box in boxes)
    found = []
    for (left, bottom, width, height, _), boxes in panels:
        found.append([
            ((x - left) / width, (x + w - left) / width, (y - bottom) / height,
             (y + h - bottom) / height, colour)
            for x, y, w, h, _, colour in boxes
        ])  # fmt: skip
    return [panel for panel in found if panel]


@pytest.mark.slow
def test_rectangles_read_back_from_the_picture_are_those_of_the_schedules():
    schedules = [made_schedule(300, policy) for policy in ("fcfs", "saf")]
    stretch = whole(schedules[0])
    boxes = [
        boxes_of(schedule, rectangles(schedule), stretch.from_s, stretch.to_s, 10_000)
        for schedule in schedules
    ]
    panels = rectangles_in(gantt_plot(schedules, boxes, stretch, "a"))
    assert len(panels) == 2
    waits = [s.jobs["wait_s"].to_numpy()[of.job] for s, of in zip(schedules, boxes, strict=True)]
    lower, upper = steps_of_wait(np.concatenate(waits))
    colours = np.array(["simple", "line-1", "line-2", "ink"])
    for of, wait, panel in zip(boxes, waits, panels, strict=True):
        length = stretch.to_s - stretch.from_s
        steps = np.searchsorted([np.nextafter(0, 1), lower, upper], wait, side="right")
        left, right = ((each - stretch.from_s) / length for each in (of.left, of.right))
        rows = (of.low / 256, of.high / 256)
        wanted = list(zip(left, right, *rows, colours[steps], strict=True))
        assert len(panel) == len(wanted)
        drawn = np.array([box[:4] for box in panel])
        for box in wanted:
            gap = np.abs(drawn - np.array(box[:4], float)).max(axis=1)
            assert gap.min() < 3e-4  # a hundredth of a point, of 700 and of 140
            assert box[4] in {panel[at][4] for at in np.flatnonzero(gap < 3e-4)}


@pytest.mark.slow
def test_captions_say_by_what_the_week_was_chosen_and_what_is_left_out():
    strips, week = figures_of([weeks_of(0.0, 7200.0, 0.0)], "the run")
    assert week.title == "The worst week under fcfs: number 2 of 3 of the run."
    assert "From day 8 to day 15." in week.text
    assert "the largest mean waiting area under fcfs, so it is not typical" in week.text
    assert "packs the rows" in week.text
    assert "The tinted part is drawn below." in strips.text
    assert "Not drawn" not in week.text


@pytest.mark.slow
def test_a_picture_that_would_hide_much_is_of_a_shorter_part():
    """800 equal jobs a day are too many for a week; all are drawn in hours."""
    submit = np.arange(0, 6 * 86_400, 108.0)
    count = len(submit)
    jobs = pl.DataFrame({
        "job": np.arange(count), "submit_s": submit, "eligible_s": submit,
        "start_s": submit + 100.0, "end_s": submit + 200.0, "processors": 1, "requested_s": 100.0,
        "counted": True, "wait_s": 100.0, "bounded_slowdown": 2.0,
    })  # fmt: skip
    facts = {**made_schedule(3).facts, "to_s": 6 * 86_400.0, "capacity": {"processors": 2}}
    for clock, name in (("s", "6 hours"), ("step", "part of 32,400 steps")):
        schedule = with_facts(make_schedule(jobs, facts), clock=clock)
        _, drawing = figures_of([schedule], "window 1")
        assert drawing.title.startswith(f"The worst {name} under fcfs: number ")
        assert "A longer part has too many jobs for this picture." in drawing.text
        assert "Not drawn" not in drawing.text


@pytest.mark.slow
def test_where_nobody_waits_no_part_is_the_worst():
    _, drawing = figures_of([weeks_of(0.0, 0.0, 0.0)], "the run")
    assert drawing.title == "The first week: number 1 of 3 of the run."
    assert "The waiting area is 0 in all of the run under fcfs." in drawing.text


def test_pictures_of_nothing_are_left_out():
    empty = made_schedule(3)
    assert list(figures_of([Schedule(empty.jobs.clear(), empty.facts)], "the run")) == []
    assert list(figures_of([with_facts(empty, to_s=0.0)], "the run")) == []


@pytest.mark.slow
def test_where_the_clock_counts_arrivals_nobody_waits():
    schedule = with_facts(made_schedule(40), clock="arrival", scenario="gpupack", epoch=None)
    strips, drawing = figures_of([schedule], "window 3")
    assert strips.title == "Utilisation over time."
    assert "waiting area" not in strips.plot + drawing.text
    assert drawing.title == "From beginning to end of window 3."
    assert "its colour" not in drawing.text


@pytest.mark.slow
def test_hostile_names_stay_text():
    bad = "<script>alert(1)</script>"
    schedule = with_facts(made_schedule(40), policy=bad, unit="<b>")
    for figure in figures_of([schedule], "the run"):
        assert "<script" not in figure.plot
        assert "<b>" not in figure.plot
        assert html.escape(bad, quote=False) in figure.plot


@pytest.mark.slow
def test_pictures_have_colours_of_the_page_alone():
    known = set(re.findall(r"(--[\w-]+):", STYLE.read_text()))
    for figure in figures_of([made_schedule(200), made_schedule(200, "saf")], "the run"):
        assert set(re.findall(r"var\((--[\w-]+)\)", figure.plot)) <= known
        assert not re.search(r"#[0-9a-f]{6}\b", figure.plot)
        assert "http" not in figure.plot


@pytest.mark.parametrize(
    ("longest", "steps"),
    [(0.0, (1, 2)), (100.0, (2, 30)), (86_400.0, (3600, 43_200)), (1e6, (43_200, 345_600))],
)
def test_colours_change_at_round_waits(longest, steps):
    assert steps_of_wait(np.array([0.0, longest, np.nan])) == steps


@pytest.mark.slow
def test_means_of_two_policies_are_over_the_time_that_both_have():
    """Of a play that ends earlier, the mean is not set beside that over a longer time."""
    pair = [weeks_of(7200.0), with_facts(weeks_of(3600.0), policy="saf", to_s=WEEK_S / 2)]
    _, drawing = figures_of(pair, "the run")
    assert drawing.title == "From beginning to end of the run."
    one, two = (f"{0.5 * hours * 3600 / (WEEK_S / 2):.3g}" for hours in (2, 1))
    assert (
        "The mean waiting area until day 4, 12:00:00, where the first play ends, is "
        f"{one} h under fcfs and {two} h under saf."
    ) in drawing.text
    pair = [weeks_of(0.0, 7200.0, 0.0), with_facts(weeks_of(0.0, 3600.0, 0.0), policy="saf")]
    _, drawing = figures_of(pair, "the run")
    one, two = (f"{0.5 * hours * 3600 / WEEK_S:.5f}" for hours in (2, 1))
    assert f"so it is not typical: {one} h. Over all" in drawing.text
    assert f"area of this part is {one} h under fcfs and {two} h under saf." in drawing.text


@pytest.mark.slow
def test_jobs_without_a_rectangle_are_counted():
    idle = pl.when(pl.col("job") > 1).then("processors").otherwise(0)
    _, drawing = figures_of([without_starts(made_schedule(300, processors=idle))], "the run")
    told = "Without a rectangle under fcfs: 40 jobs that did not start, 2 jobs without processors."
    assert told in drawing.text


def test_a_job_in_very_many_pieces_does_not_empty_the_picture():
    """Every second processor is held, so that the largest job lies in 50 pieces."""
    job = np.arange(101)
    last = job == 100
    jobs = pl.DataFrame({
        "job": job, "submit_s": 0.0, "eligible_s": 0.0, "start_s": np.where(last, 10.0, 0.0),
        "end_s": np.where((job % 2 == 0) & ~last, 10.0, 1000.0),
        "processors": np.where(last, 50, 1), "counted": True, "wait_s": 0.0,
    })  # fmt: skip
    schedule = make_schedule(jobs, {**made_schedule(3).facts, "capacity": {"processors": 100}})
    drawn = rectangles(schedule)
    assert np.bincount(drawn.job)[100] == 50
    assert boxes_of(schedule, drawn, 0.0, 1000.0).hidden == 0
    of = boxes_of(schedule, drawn, 0.0, 1000.0, 120)
    assert of.hidden == 1
    assert len(of.job) == 100


def test_ticks_over_years_have_a_year():
    schedule = made_schedule(3)
    from_s, to_s = 0.0, 3 * 365 * 86_400.0
    stretch = whole(schedule)._replace(from_s=from_s, to_s=to_s)
    of = boxes_of(schedule, rectangles(schedule), from_s, to_s)
    assert " 2025</text>" in gantt_plot([schedule], [of], stretch, "a")
