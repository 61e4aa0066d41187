"""Tests of the page of `hindcast whatif`, from made material."""

import html
import json
import re
from dataclasses import replace

import polars as pl
import pytest

from hindcast.pipeline.report.whatif.page import write_page
from hindcast.pipeline.whatif.replay import Replay
from hindcast.pipeline.workloads.caveats import NO_LIMITS, Caveat
from hindcast.pipeline.workloads.log_caveats import UNKNOWN_WAITS
from tests.pipeline.report.made_whatif import advice, changes, closed_day, grade, material

AGENTS = ("evolution-seed0", "evolution-seed1")
UNKNOWN = Caveat(UNKNOWN_WAITS, "the start of 100 jobs (9.0% of the work) is unknown")
PARTIAL = Caveat(NO_LIMITS, "no time limit is known for 60 jobs (6.7% of them)")


def agents(**delivered):
    named = {name.replace("_", "-"): what for name, what in delivered.items()}
    return material(
        factors={AGENTS[0]: 0.35, AGENTS[1]: 0.3}, kinds=dict.fromkeys(AGENTS, "learned"),
        delivered=named,
        training={"seeds": 2, "iterations": 14, "episodes": 672, "jobs": 100, "train_windows": 2},
    )  # fmt: skip


def costly():
    """Return material of a rule whose longest wait is 1.5 times that of the record."""
    made = material()
    values = {name: dict(of) for name, of in made.run.values.items()}
    values["saf_easy"]["max_wait_s"] = 1.5 * values["recorded"]["max_wait_s"]
    return replace(made, run=replace(made.run, values=values))


LATE = Replay(None, 900, 414, 521.0, 0.2)
KINDS = {
    "gain": material,
    "whole": lambda: material(
        without_advice=("rows of saf for another scheduler",),
        changes=changes(), advice=advice(), grade=grade(known="fcfs easy", explained=1.0, idle=0.0)
    ),
    "price": costly,
    "worse": lambda: material(
        factors={"fcfs_easy": 1.4, "sjf_easy": 1.5, "saf_easy": 1.3, "lxf_easy": 1.6,
                 "steady_area_easy": 1.7}
    ),
    "poor": lambda: material(grade=grade("D", open=0.2494), replay=LATE),
    "closed": lambda: material(days=9, grade=closed_day(), begin_s=3_000_000),
    "closed in the run": lambda: material(days=42, grade=closed_day(), begin_s=2_000_000),
    "idle": lambda: material(grade=replace(grade("-"), at_once=0.97, mean_wait_s=20.0)),
    "unknown": lambda: material(unknown=100, held=0.1, caveats=(UNKNOWN,)),
    "requests": lambda: material(caveats=(PARTIAL,)),
    "no starts": lambda: material(starts=False),
    "no span": lambda: material(days=0),
    "refused": lambda: agents(evolution_seed0="rule", evolution_seed1="rule"),
    "delivered": lambda: agents(evolution_seed0="agent", evolution_seed1="rule"),
    "bare": lambda: material(windows=None, before=None, shaken={}, replay=None),
}  # fmt: skip
BADGES = {
    "gain": "Gain", "whole": "Gain", "price": "Gain with a price", "worse": "Worse",
    "poor": "Not about your scheduler", "closed": "Gain",
    "closed in the run": "Not about your scheduler",
    "idle": "Nearly nobody waits",
    "unknown": "Cannot be judged", "requests": "Cannot be judged", "no starts": "Cannot be judged",
    "no span": "Cannot be judged", "refused": "Gain", "delivered": "Gain",
    "bare": "No clear difference",
}  # fmt: skip


def text_of(markup):
    """Return what a reader sees of some markup."""
    markup = re.sub(r"<(script|style).*?</\1>", " ", markup, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", markup)))


class Page:
    """A page that was written, and its numbers."""

    def __init__(self, made, out):
        self.told = write_page(made, out)
        self.out = out
        self.markup = (out / "whatif.html").read_text()
        self.text = text_of(self.markup)
        self.json = json.loads((out / "whatif.json").read_text())
        self.first = text_of(self.markup.split("<nav")[0].split("<header>")[1])
        self.table = pl.read_csv(out / "whatif.csv")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Return a page of a kind, which is written once."""
    pages = {}

    def written(kind):
        if kind not in pages:
            pages[kind] = Page(KINDS[kind](), tmp_path_factory.mktemp("page"))
        return pages[kind]

    return written


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_page_says_its_badge_and_no_more(page, kind):
    """A page loads nothing, and has a word of gain only where its badge is one."""
    found = page(kind)
    story = found.json
    assert story["badge"] == BADGES[kind]
    assert story["badge"] in found.first
    sentence = text_of(found.markup.split('<p class="lead">')[1].split("</p>")[0])
    assert re.sub(r"\W", "", sentence) == re.sub(r"\W", "", story["conclusion"])
    assert "default-src 'none'" in html.unescape(found.markup)
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', found.markup)
    assert set(re.findall(r'href="#([^"]+)"', found.markup)) <= set(
        re.findall(r'id="([^"]+)"', found.markup)
    )
    assert len(re.findall(r"\bgain", found.text, flags=re.IGNORECASE)) == (
        1 if "Gain" in BADGES[kind] else 0
    )
    coloured = re.findall(r'class="(better|worse)"', found.markup)
    side = {"green": "better", "yellow": "better", "red": "worse"}.get(story["colour"])
    assert set(coloured) == ({side} if side else set())
    assert len(coloured) == 2 * bool(side)  # in the run and on the windows
    colours = {"green": "win", "yellow": "unclear", "red": "loss", "grey": ""}
    assert f'<div class="finding {colours[story["colour"]]}"' in found.markup
    assert len(set(re.findall(r"\[(h|min|s)\]", found.text)) - {"s"}) <= 1  # unit of all waits
    assert "n/a" not in found.text
    assert "nan" not in re.findall(r"\w+", found.text)


@pytest.mark.slow
def test_the_page_has_the_same_bytes_for_the_same_material(page, tmp_path):
    Page(KINDS["whole"](), tmp_path)
    for file in sorted(path.name for path in page("whole").out.iterdir()):
        assert (page("whole").out / file).read_bytes() == (tmp_path / file).read_bytes(), file


@pytest.mark.slow
def test_the_first_screen_has_badge_grade_four_numbers_and_cautions(page):
    found = page("unknown").first
    assert "Cannot be judged" in found
    assert "grade of the machine: A" in found
    assert page("unknown").markup.count("<dt>", 0, page("unknown").markup.index("<nav")) == 4
    assert "what would mend it: the starts of these jobs" in found
    assert "100 of 900 jobs are unknown" in found


@pytest.mark.slow
def test_a_poor_machine_is_named_and_the_record_stands_beside_no_rule(page):
    found = page("poor")
    assert (
        "(grade D): jobs wait while every waiting job fits (25 % of the waiting)"
        in (found.json["conclusion"])
    )
    assert "than fcfs_easy" in found.json["conclusion"]
    assert "The log:" not in found.first
    assert "starts 414 of 900 jobs (46 %) later than the log" in found.text
    assert "More weeks of this log do not help" in found.text
    assert "excludes 0 already" not in found.text
    assert "beside recorded" not in found.text
    assert "beside recorded" in page("gain").text


@pytest.mark.slow
def test_closed_times_are_named_to_the_minute(page):
    """A run that contains one is no comparison with the scheduler, which could start nothing."""
    sentence = page("closed in the run").json["conclusion"]
    assert "(grade D): from day 24, 22:04" in sentence
    assert "and the run contains that time" in sentence
    assert page("closed in the run").json["nearness"]["grade"] == "B"
    text = page("closed").text
    assert "From day 24, 22:04 (second 2,066,694) to day 26, 00:00 (second 2,160,000)" in text
    assert "119 jobs waited in it, 100 % of all such waiting" in text
    assert page("closed").json["nearness"]["closed"][0]["from"] == 2_066_694
    assert "without the closed times" in text
    assert "shorter than four weeks, so that there are no intervals" in text


@pytest.mark.slow
def test_the_scheduler_is_named_if_it_is_known(page):
    assert "those of order of arrival with EASY backfilling in 100 %" in page("whole").text
    assert "No known order explains more than 79 % of your log's starts" in page("gain").text
    assert page("gain").json["nearness"]["known"] is None
    assert page("whole").json["nearness"]["known"] == "fcfs easy"


@pytest.mark.slow
def test_refused_agents_are_in_tables_alone(page):
    for kind in ("refused", "delivered"):
        found = page(kind)
        assert AGENTS[1] not in found.first
        row = found.markup.split(f">{AGENTS[1]}</a>")[1].split("</th>")[0]
        assert "refused" in row
    assert AGENTS[0] in page("delivered").json["conclusion"]
    assert page("refused").json["policies"]["agent"] is None
    assert page("refused").json["policies"]["candidate"] == "saf_easy"
    assert "672 episodes of 100 counted jobs" in page("delivered").text
    run, windows, refused = page("delivered").json["agents"]
    assert run.startswith(f"In the run, the delivered agent {AGENTS[0]} has")
    assert all(
        of.endswith("saf_easy, the best rule there after the fact.") for of in (run, windows)
    )
    assert refused.startswith("1 agent refused")


@pytest.mark.slow
def test_rules_that_know_run_times_are_marked_where_requests_are_run_times(page):
    markup = page("requests").markup
    rows = re.findall(r'<tr class="bound" data-pinned>.*?</tr>', markup)
    assert len(rows) >= 2 * 7  # all but the record, in the run and on the windows
    assert all("knows run times" in row for row in rows)


@pytest.mark.slow
def test_header_and_table_count_the_same_jobs(page):
    found = page("gain")
    assert (
        "compared on 900 of the last 41 days (14 of them waited when the run began)" in found.first
    )
    assert "means over 900 counted jobs, of which 14 waited when the run began" in found.text
    assert found.json["jobs"]["run"] == 900


@pytest.mark.slow
def test_a_span_of_no_time_cannot_be_judged(page):
    assert "within 0 s" in page("no span").json["conclusion"]


@pytest.mark.slow
def test_both_waits_stand_where_jobs_are_held(page):
    assert "scheduler's mean wait [h]" in page("unknown").text
    assert "became eligible after their submission: the user's mean wait is" in page("unknown").text
    assert "scheduler's mean wait" not in page("gain").text
    record = page("unknown").json["record"]
    held = KINDS["unknown"]().jobs.drop_nulls("recorded_wait_s")["held_s"].mean()
    assert record["mean_wait_s"] - record["scheduler_mean_wait_s"] == pytest.approx(held)
    assert held > 0


@pytest.mark.slow
def test_files_hold_what_the_page_says(page):
    found = page("whole")
    of = found.table.filter(scope="run", policy="saf_easy", metric="mean_bounded_slowdown")
    assert of["shake_sd"].null_count() == 0
    assert found.table.filter(scope="windows")["shake_sd"].null_count() == (
        found.table.filter(scope="windows").height
    )
    shakes = pl.read_csv(found.out / "shake.csv")
    assert shakes.columns == ["policy", "draw", "mean_bounded_slowdown", "mean_wait_s"]
    spread = shakes.filter(policy="saf_easy")["mean_bounded_slowdown"].std()
    assert float(of["shake_sd"][0]) == pytest.approx(spread)
    assert pl.read_csv(found.out / "changes.csv").equals(changes())
    assert "processors=+10%" in found.text
    assert "SchedulerParameters=bf_job_part_count_reserve=1" in found.text
    assert "rows of saf for another scheduler" in found.text
    assert not (page("bare").out / "shake.csv").exists()


@pytest.mark.slow
def test_policies_with_the_same_starts_are_said_once(tmp_path):
    found = Page(material(factors={"sjf_easy": 1.0}), tmp_path)
    assert found.text.count("recorded and sjf_easy start every job of the run in the same") == 1
