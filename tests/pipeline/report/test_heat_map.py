"""Tests of the heat map of windows, and of its place in reports and pages of `whatif`."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.summary.evaluations import read_evaluation
from hindcast.pipeline.pages.numbers import time_unit
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.report import svg
from hindcast.pipeline.report.heat_map import OPAQUE, heat_map, heat_map_figure
from hindcast.pipeline.report.page import write_report
from hindcast.pipeline.report.whatif.page import write_page
from hindcast.pipeline.report.whatif.pictures import groups_figure, loads_of
from hindcast.pipeline.scenarios import queue
from hindcast.pipeline.schedules.schedule import Schedule, read_schedule, write_schedule
from tests.made_schedules import made_schedule
from tests.pipeline.report.made_whatif import material
from tests.pipeline.report.test_page import write
from tests.pipeline.report.test_view import colours, contrast

RNG = np.random.default_rng(5)
VALUES = {
    "drawn": (RNG.uniform(0.2, 1.7, 200), RNG.lognormal(3, 2, 200) + 1),
    "edges": (np.array([0.2, 0.4, 0.6, 0.6000000000000001, 1.0]), np.array([1.0, 2, 5, 10, 1000])),
    "equal": (np.full(5, 0.7), np.ones(5)),
    "large": (np.array([0.1, 100.0, 3e6]), np.array([1.0, 1e14, 50.0])),
}


@pytest.mark.parametrize("kind", VALUES)
def test_counts_sum_to_the_windows_and_lie_where_the_windows_do(kind):
    load, slowdown = VALUES[kind]
    of = heat_map(load, {"a": slowdown, "b": slowdown[::-1]})
    assert of.windows == len(load)
    for values, counts in zip((slowdown, slowdown[::-1]), of.counts.values(), strict=True):
        assert counts.sum() == len(load)
        for (y, x), count in np.ndenumerate(counts):
            inside = (load >= of.loads[x]) & (values >= of.slowdowns[y])
            last_x, last_y = x == len(of.loads) - 2, y == len(of.slowdowns) - 2
            inside &= (load < of.loads[x + 1]) | (last_x & (load == of.loads[x + 1]))
            inside &= (values < of.slowdowns[y + 1]) | (last_y & (values == of.slowdowns[y + 1]))
            assert inside.sum() == count
    assert len(of.loads) <= 10


def test_unknown_windows_are_left_out_and_counted():
    load = np.array([0.5, np.nan, 0.7, 0.9])
    of = heat_map(load, {"a": np.array([1.0, 2.0, np.nan, 4.0])})
    assert (of.windows, of.left_out) == (2, 2)
    assert heat_map(load[:2], {"a": np.ones(2)}) is None
    assert heat_map_figure(load[:2], {"a": np.ones(2)}, "a", "") is None


@pytest.mark.slow
def test_the_picture_has_a_number_in_every_cell_that_has_windows_and_nothing_in_others():
    load, slowdown = VALUES["drawn"]
    of = heat_map(load, {"a": slowdown})
    figure = heat_map_figure(load, {"a": slowdown}, "a", "A window is a window.")
    cells = re.findall(r"<path d=\"[^\"]*\" clip-path[^>]*opacity: [\d.]+[^>]*>", figure.plot)
    assert len(cells) == np.count_nonzero(of.counts["a"])
    told = re.search(r'aria-label="[^"]*"', figure.plot).group()
    assert sum(int(n) for n in re.findall(r": (\d+)(?:,|$|\")", told)) == 200
    assert "of 200 in all; a cell without a number has none" in figure.text


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_contrasts_of_the_pictures_are_those_of_wcag_aa(dark):
    """Shapes have 3, and the numbers of the fullest cell 4.5."""
    of = colours(dark=dark)
    for name in ("simple", "line-1", "line-2", "ink", "muted", "good", "bad", "strongest"):
        assert contrast(of[name], of["card"]) >= 3, name
    card, full = (np.array([int(of[n][i : i + 2], 16) for i in (1, 3, 5)])
                  for n in ("card", "learned"))  # fmt: skip
    cell = np.rint(OPAQUE * full + (1 - OPAQUE) * card).astype(int)
    assert contrast(of["ink"], "#" + "".join(f"{part:02x}" for part in cell)) >= 4.5


@pytest.mark.slow
def test_the_load_of_a_window_is_work_over_what_the_machine_offers():
    recipe = load_recipe("queue-lublin1-v1")
    workload = load_source(recipe)
    found = queue.load(recipe.config, workload, 47)
    log = queue.read_log(workload)
    first, stop = queue.stretch(recipe.config, 47)
    jobs = slice(first, stop)
    work = int((log.cpu[jobs] * log.run[jobs]).sum())
    assert found == work / (256 * (log.submit[stop - 1] - log.submit[first]))
    assert 0.1 < found < 5


def of_queue(folder, **changes):
    """Write an evaluation that looks like one of `queue`."""
    metrics = [{"name": "mean_bounded_slowdown", "unit": "1", "better": "lower"},
               {"name": "truncated", "unit": "1", "better": "lower"},
               {"name": "bound_s", "unit": "s", "better": "neither"}]  # fmt: skip
    write(
        folder, 200, scenario="queue", headline="mean_bounded_slowdown", metrics=metrics, **changes
    )
    scores = pl.read_parquet(folder / "scores.parquet").with_columns(
        scenario=pl.lit("queue"),
        metric=pl.col("metric").replace("makespan_s", "mean_bounded_slowdown"),
    )
    scores.write_parquet(folder / "scores.parquet")
    (folder / "jobs").mkdir()
    return folder


@pytest.mark.slow
def test_a_report_draws_loads_and_schedules_that_it_has(tmp_path):
    """The best simple policy and the learned one stand beside each other."""
    folder = of_queue(tmp_path / "one", loads={str(w): 0.5 + w / 100 for w in range(40)})
    for policy in ("longest", "agent", "random"):
        of = made_schedule(120, "saf" if policy == "agent" else "fcfs")
        source = {"recipe": "binpack-makespan", "digest": "ab" * 32}
        facts = {**of.facts, "policy": policy, "source": source, "window": 3}
        write_schedule(Schedule(of.jobs, facts), folder / "jobs" / f"{policy}.parquet")
    text = write_report([folder], tmp_path / "out").read_text()
    assert "A number counts windows, of 40 in all" in text
    assert "From beginning to end of window 3." in text
    assert "This is 1 of 40 windows and has no interval." in text
    drawing = text.split("From beginning to end of window 3.")[0].rsplit("<svg", 1)[1]
    assert ">longest<" in drawing
    assert ">agent<" in drawing
    assert ">random<" not in drawing
    assert "of 40 in all" not in write_report([of_queue(tmp_path / "two")], tmp_path).read_text()
    for path in (folder / "jobs").iterdir():  # --jobs plays any window, and names may share a file
        of = read_schedule(path)
        policy = "a/b" if path.stem == "agent" else path.stem
        write_schedule(Schedule(of.jobs, {**of.facts, "window": 77, "policy": policy}), path)
    text = write_report([folder], tmp_path / "out").read_text()
    assert "Window 77 is none of the 40 windows of the scores, and has no interval." in text
    assert "This is 1 of" not in text
    drawing = text.split("From beginning to end of window 77.")[0].rsplit("<svg", 1)[1]
    assert ">longest<" in drawing
    assert ">a/b<" not in drawing


@pytest.mark.slow
def test_schedules_of_another_recipe_or_window_are_not_drawn(tmp_path):
    folder = of_queue(tmp_path / "one")
    for policy, window, digest in (("longest", 3, "ab"), ("agent", 4, "ab"), ("random", 3, "cd")):
        of = made_schedule(60)
        source = {"recipe": "binpack-makespan", "digest": digest * 32}
        facts = {**of.facts, "policy": policy, "source": source, "window": window}
        write_schedule(Schedule(of.jobs, facts), folder / "jobs" / f"{policy}.parquet")
    text = write_report([folder], tmp_path / "out").read_text()
    drawing = text.split("From beginning to end of window 3.")[0].rsplit("<svg", 1)[1]
    assert ">longest<" in drawing
    assert ">agent<" not in drawing
    assert ">random<" not in drawing


@pytest.mark.parametrize("loads", [[], {"x": 1.0}, {"1": "much"}, {"1": -1.0}, {"1": float("nan")}])
def test_damaged_loads_are_one_line(tmp_path, loads):
    folder = write(tmp_path / "one", loads=loads)
    if loads == []:
        loads = [1]
        (folder / "evaluation.json").write_text(
            (folder / "evaluation.json").read_text().replace('"loads": []', '"loads": [1]')
        )
    with pytest.raises(DatasetError, match=r"load"):
        read_evaluation(folder)


def test_loads_of_whatif_are_those_of_the_jobs_of_each_window():
    made = material()
    first = made.plan.test_first
    jobs = made.jobs.with_columns(job=pl.col("job") + first)
    plan = replace(made.plan, test=(first, first + 100, made.plan.test_last - 20))
    # The record is in order of arrival; a job that was held may come behind later ones.
    jobs = jobs.with_columns(
        pl.when(pl.col("job") == first + 139).then(pl.col("submit_s") - 1e6).otherwise("submit_s")
        .alias("submit_s")
    )  # fmt: skip
    found = loads_of(replace(made, jobs=jobs, plan=plan))
    inside = jobs.slice(100, 40)
    span = inside["submit_s"].max() - inside["submit_s"].min()
    assert found[1] == pytest.approx(inside["work"].sum() / (100 * span))
    assert np.isnan(found).tolist() == [False, False, True]  # the last window ends behind the run
    assert np.isnan(loads_of(replace(made, jobs=jobs[::2], plan=plan))).all()


@pytest.mark.slow
def test_a_page_of_whatif_draws_what_it_has(tmp_path):
    made = material()
    first = made.plan.test_first
    jobs = made.jobs.with_columns(job=pl.col("job") + first)
    assert made.drawn == ["recorded", "saf_easy"]
    pair = {}
    for policy, rule in (("recorded", "fcfs"), ("saf_easy", "saf")):
        of = made_schedule(900, rule)
        pair[policy] = Schedule(of.jobs, {**of.facts, "policy": policy})
    plan = replace(made.plan, test=tuple(range(first, first + 800, 40)))
    write_page(replace(made, jobs=jobs, plan=plan, schedules=pair), tmp_path)
    text = (tmp_path / "whatif.html").read_text()
    assert "A number counts windows, of 20 in all" in text
    assert "The worst week under" in text
    assert "Mean waits by group." in text
    write_page(made, tmp_path)
    text = (tmp_path / "whatif.html").read_text()
    assert "The worst week under" not in text
    assert "A number counts windows" not in text  # whose jobs are not those of the run


@pytest.mark.slow
def test_names_in_any_letters_are_text_of_the_picture():
    names = ["<script>", "\u7528\u6237", "a\x01b", "$x$"]
    table = pl.DataFrame({
        "kind": "user", "group": names, "jobs": 10, "work_share": 0.25, "policy": "fcfs_easy",
        "mean_wait_s": [60.0, 0.0, None, 7200.0],
    })  # fmt: skip
    plot = groups_figure(table, {"user": "By user"}, time_unit(3600.0)).plot
    for shown in ("&lt;script&gt;", names[1], "a b", "$x$"):
        assert f">{shown}</text>" in plot
    nobody = table.with_columns(mean_wait_s=0.0)
    assert groups_figure(nobody, {"user": "By user"}, time_unit(3600.0)) is None


@pytest.mark.slow
def test_every_point_of_the_groups_lies_within_its_panel(monkeypatch):
    """Panels share an axis, on which a later panel may have the longest wait."""
    figures = []
    make = svg.new_figure
    monkeypatch.setattr(
        svg, "new_figure", lambda *sizes: figures.append(make(*sizes)) or figures[0]
    )
    table = pl.DataFrame({
        "kind": ["user", "user", "size", "size"], "group": ["a", "b", "1", "2"], "jobs": 10,
        "work_share": 0.25, "policy": "fcfs_easy", "mean_wait_s": [60.0, 90.0, 30.0, 1e7],
    })  # fmt: skip
    groups_figure(table, {"user": "By user", "size": "By size"}, time_unit(3600.0))
    drawn = [(x, axes.get_xlim()) for axes in figures[0].axes for line in axes.lines
             for x in line.get_xdata()]  # fmt: skip
    assert len(drawn) == 4
    assert all(low < x < high for x, (low, high) in drawn)
