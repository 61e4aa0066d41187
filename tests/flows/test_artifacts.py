"""Tests of what a run shows on a Prefect server; Prefect's functions are fakes."""

import importlib
from pathlib import Path

import polars as pl
import pytest

from hindcast.flows import artifacts, links
from hindcast.flows.commands import build, evaluate, report
from hindcast.flows.commands.schedules import view
from hindcast.flows.progress import Lines
from hindcast.pipeline.evaluation.summary.summarise import TABLE_SCHEMA

SUMMARY = """\
# Summary

## binpack

No learned policy clearly beats tetris.

Recipe binpack-synthetic-v1, test windows.

### makespan_s (s), lower is better

60 windows.

## slots

cql is better.

### slowdown
"""


def row(policy: str, reference: str, **values) -> dict:
    known = {
        "scenario": "binpack", "recipe": "r", "metric": "makespan_s", "unit": "s",
        "kind": "heuristic", "windows": 60, "seeds": 1, "mean": 600.0, "low": 500.0, "high": 700.0,
    }  # fmt: skip
    return {
        **dict.fromkeys(TABLE_SCHEMA),
        **known,
        "policy": policy,
        "reference": reference,
        **values,
    }


TABLE = pl.DataFrame(
    [
        row("cql", "random", kind="learned", mean=590.0, paired_difference=-50.0),
        row("cql", "tetris", kind="learned", mean=590.0, paired_difference=-10.0, paired_low=-12.0,
            paired_high=-7.5),
        row("tetris", "random", paired_difference=-40.0),
        row("tetris", "tetris"),
        row("random", "random", kind="random", mean=640.0),
        row("random", "tetris", kind="random", mean=640.0, paired_difference=40.0, paired_low=1.0,
            paired_high=80.0),
        row("cql", "random", kind="learned", metric="jobs", mean=3.0),
    ],
    schema=TABLE_SCHEMA,
)  # fmt: skip


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """Return the artifacts that are made: kind, key, content and description."""
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    calls: list[tuple] = []
    module = importlib.import_module("prefect.artifacts")
    for kind in ("markdown", "table", "link", "progress"):

        def create(content, *, key, description, link_text=None, kind=kind):
            calls.append((kind, key, content, description))
            return len(calls)

        monkeypatch.setattr(module, f"create_{kind}_artifact", create)
    monkeypatch.setattr(
        module, "update_progress_artifact",
        lambda artifact, share, *, description: calls.append(
            ("update", artifact, share, description)
        ),
    )  # fmt: skip
    return calls


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the warnings in the log of the run."""
    lines: list[str] = []

    class Logger:
        def warning(self, text, *values):
            lines.append(text % values)

    monkeypatch.setattr(importlib.import_module("prefect.logging"), "get_run_logger", Logger)
    return lines


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "summary.md").write_text(SUMMARY)
    TABLE.write_parquet(tmp_path / "summary.parquet")
    (tmp_path / "report.html").write_text("a page")
    return tmp_path / "report.html"


def test_a_report_is_a_link_the_finding_and_the_headline_table(made, log, page):
    request = report.Request((), str(page.parent))
    artifacts.publish(request, {"report": str(page)})
    link, finding, scores = made
    assert link == ("link", "report-report", page.as_uri(), "Report")
    assert finding[:2] == ("markdown", "report-report-finding")
    assert scores[:2] == ("table", "report-report-scores")
    assert scores[3] == "r: makespan_s [s], 60 windows"
    assert not log


def test_a_page_that_is_not_there_is_not_linked(made, log, page):
    page.unlink()
    artifacts.publish(report.Request((), str(page.parent)), {"report": str(page)})
    assert [kind for kind, *_ in made] == ["markdown", "table"]
    assert not log


def test_other_pages_are_links_beside_what_the_command_prints(made, log, page):
    request = view.Request(str(page.parent))
    result = {"page": str(page), "bytes": 6, "difference": "they differ", "caveats": []}
    artifacts.publish(request, result)
    assert made[0] == ("link", "view-page", page.as_uri(), "Page")
    assert made[1][:2] == ("markdown", "view-result")
    artifacts.publish(request, {**result, "page": str(page.with_name("none.html"))})
    assert [kind for kind, *_ in made] == ["link", "markdown", "markdown"]
    assert not log


def test_the_finding_is_the_summary_without_its_tables():
    assert artifacts.finding_of(SUMMARY) == (
        "## binpack\n\nNo learned policy clearly beats tetris.\n\n"
        "Recipe binpack-synthetic-v1, test windows.\n\n## slots\n\ncql is better."
    )


def test_policies_are_compared_with_the_strongest_that_is_no_agent():
    [(_, rows)] = artifacts.scores_of(TABLE)
    assert [(r["policy"], r["mean"], r["minus tetris"]) for r in rows] == [
        ("cql", "590.0", "-10.0 (-12.0 .. -7.5)"),
        ("tetris", "600.0", ""),
        ("random", "640.0", "+40.0 (1.0 .. 80.0)"),
    ]


def test_without_references_a_table_has_no_differences():
    table = TABLE.filter(pl.col("reference") == "random").with_columns(reference=None)
    [(_, rows)] = artifacts.scores_of(table)
    assert [list(r) for r in rows] == [["policy", "kind", "seeds", "mean", "interval"]] * 3


def test_an_evaluation_is_its_means_and_other_commands_are_what_they_print(made, log):
    means = {"evaluation": "e", "split": "test", "means": {"tetris": 2.5}}
    artifacts.publish(evaluate.Request("r", "e"), means)
    result = {"dataset": "d", "episodes": 1, "decisions": 2, "bytes": 3, "digest": "abc"}
    artifacts.publish(build.Request("r", "d"), result)
    assert made[0] == (
        "table", "evaluate-means", [{"policy": "tetris", "mean": 2.5}], "Means on test: e",
    )  # fmt: skip
    assert made[1][:2] == ("markdown", "build-result")
    assert made[1][2].startswith("```text\nd: 1 episodes, 2 decisions")
    assert not log


def test_an_artifact_that_cannot_be_made_is_a_line_in_the_log(made, log, tmp_path):
    artifacts.publish(report.Request((), str(tmp_path)), {"report": f"{tmp_path}/report.html"})
    [line] = log
    assert line.startswith("the artifacts of this run could not be made: ")
    assert "summary.md" in line


@pytest.mark.parametrize(
    ("served", "address"),
    [
        ("", "file:///srv/a%20b/report.html"),
        ("/srv=https://host/x/", "https://host/x/a%20b/report.html"),
        ("/srv/=https://host/x", "https://host/x/a%20b/report.html"),
        ("/sr=https://host", "file:///srv/a%20b/report.html"),
    ],
)
def test_a_report_is_linked_where_it_is_served(served, address, monkeypatch):
    monkeypatch.setenv(links.SERVED, served)
    assert links.link_of(Path("/srv/a b/report.html")) == address


def test_progress_is_published_when_it_is_due(made, log):
    """A short step has no artifact; a long one has one, which is updated and ends at 100."""
    now = [0.0]
    shown: list[str] = []
    display = artifacts.ProgressArtifacts(
        Lines(shown.append, 30.0, lambda: now[0]), "train_online", 30.0, lambda: now[0]
    )
    with display.progress("short") as tell:
        tell(1, 2)
    assert not made
    with display.progress("long") as tell:
        for now[0], done in ((10.0, 1), (31.0, 2), (40.0, 3), (62.0, 4)):
            tell(done, 8, "epoch")
    assert made == [
        ("progress", "train-online-progress", 25.0, "long: epoch"),
        ("update", 1, 50.0, "long: epoch"),
        ("update", 1, 100.0, "long: finished"),
    ]
    assert len(shown) == 2
    assert not log
