"""Tests of verdicts, pictures and pages of reproductions, on results made by hand."""

import re

import polars as pl
import pytest

from hindcast.flows.papers import claims
from hindcast.flows.papers.evidence import counts, evidence_html, evidence_markdown, group_of
from hindcast.flows.papers.folder import read_results, write_results
from hindcast.flows.papers.page import cells_of, paper_html, paper_markdown
from hindcast.flows.papers.plots import draw, panels
from hindcast.flows.papers.published import FILE, SCHEMA, number, published
from hindcast.flows.papers.results import CLAIM, FIGURE, TABLE, FigureText, Results, TableText
from hindcast.flows.papers.styles import styles
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.statistics.intervals import Interval

ABOUT = {
    "kind": "reproduction", "paper": "made", "title": "A <paper>", "source": "Nobody, 2026",
    "setting": {"seeds": [0, 1], "quick": True},
    "stages": [{"name": "one", "command": "hindcast x", "seconds": 90.0, "output": "x"}],
    "provenance": {"hindcast": "0.2.0", "libraries": {"numpy": "2"}},
}  # fmt: skip
KINDS = ("lines", "bars", "sorted", "histogram", "scatter")


def points(kind):
    """Return rows of a figure of a kind, with two series, intervals and a published point."""
    x = ["0", "1", "2"] if kind != "bars" else ["low", "middle", "high"]
    rows = [
        (kind, "", series, at, float(i + n), float(i + n) - 0.5, float(i + n) + 0.5)
        for n, series in enumerate(("reinforce", "first_fit"))
        for i, at in enumerate(x)
    ]
    if kind in {"lines", "bars"}:
        rows.append((kind, "", "first_fit (paper)", x[0], 1.5, None, None))
    return pl.DataFrame(rows, schema=FIGURE, orient="row")


@pytest.fixture
def results():
    """Return results with one table, a figure of every kind, and a claim of every group."""
    table = [
        ("table 1", "fifo", "reward", "-", 3408.82, 3388.6, 3370.0, 3400.0),
        ("table 1", "sjf", "reward", "-", None, 3361.0, None, None),
    ]
    texts = {
        kind: FigureText(f"Figure {kind}", kind, "step", "makespan (s)", place="p. 5")
        for kind in KINDS
    }
    made = [
        claims.difference_claim("a", "table 1", "a is above b", "-", 2.0, Interval(3.0, 1.0, 5.0)),
        claims.difference_claim("b", "table 1", "b is above c", "-", 9.0, Interval(3.0, 1.0, 5.0)),
        claims.difference_claim("c", "table 1", "c", "-", -2.0, Interval(1.0, -1.0, 3.0)),
        claims.difference_claim("d", "table 1", "d", "-", -2.0, Interval(3.0, 1.0, 5.0)),
    ]
    return Results(
        pl.DataFrame(table, schema=TABLE, orient="row"), {"table 1": TableText("Table <1>")},
        pl.concat([points(kind) for kind in KINDS]), texts, pl.DataFrame(made, schema=CLAIM),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("published_value", "interval", "direction", "size"),
    [
        (2.0, (1.0, 3.0), "yes", "yes"),
        (-2.0, (-3.0, -1.0), "yes", "yes"),
        (2.0, (3.0, 4.0), "yes", "larger"),
        (-2.0, (-5.0, -3.0), "yes", "larger"),
        (-9.0, (-5.0, -3.0), "yes", "smaller"),
        (2.0, (-1.0, 1.0), "not shown", "smaller"),
        (2.0, (-3.0, -1.0), "no", "smaller"),
    ],
)
def test_a_difference_has_a_direction_and_a_size(published_value, interval, direction, size):
    measured = Interval(sum(interval) / 2, *interval)
    row = claims.difference_claim("x", "table 1", "x", "s", published_value, measured)
    assert (row["direction"], row["size"]) == (direction, size)


@pytest.mark.parametrize(
    ("neighbours", "order"),
    [([(1, 2), (1, 2)], "yes"), ([(1, 2), (-1, 2)], "in part"), ([(1, 2), (-2, -1)], "no")],
)
def test_an_order_holds_if_all_neighbours_are_in_it(neighbours, order):
    intervals = [Interval((a + b) / 2, a, b) for a, b in neighbours]
    assert claims.order_claim("x", "table 1", "x", intervals)["order"] == order


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_figure_is_drawn_with_its_labels(kind, results):
    text = results.figure_texts[kind]
    rows = results.figures.filter(figure=kind)
    drawn = draw(rows, text, kind, "panel a")
    assert drawn == draw(rows, text, kind, "panel a")
    for wanted in ("makespan (s)", "step", "reinforce", "first_fit", "panel a", 'role="img"'):
        assert wanted in drawn


def test_a_policy_looks_alike_in_all_figures():
    alone, among = styles(["sjf"]), styles(["random", "knapsack", "sjf", "sjf (paper)", "bound"])
    assert alone["sjf"] == among["sjf"]
    assert among["sjf (paper)"].hollow
    assert among["sjf (paper)"].color == among["sjf"].color
    assert len({(look.color, str(look.dash)) for look in among.values()}) == 4


def test_unknown_policies_of_a_figure_differ():
    looks = styles([f"own rule {n}" for n in range(20)])
    assert len({(look.color, str(look.dash)) for look in looks.values()}) == 20


@pytest.mark.slow
def test_a_folder_gives_back_what_was_written_and_the_same_bytes(results, tmp_path):
    write_results(tmp_path / "a", results, ABOUT)
    about, found = read_results(tmp_path / "a")
    assert about["paper"] == "made"
    assert found.tables.equals(results.tables)
    assert found.figure_texts == results.figure_texts
    write_results(tmp_path / "b", found, ABOUT)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len([name for name in names if name.endswith(".svg")]) == len(KINDS)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    picture = (tmp_path / "a" / "lines.svg").read_text()
    assert 'xmlns="http://www.w3.org/2000/svg"' in picture
    assert "var(" not in picture


@pytest.mark.slow
def test_pages_show_published_beside_measured(results, tmp_path):
    write_results(tmp_path, results, ABOUT)
    about, found = read_results(tmp_path)
    page = paper_html(about, found)
    text = paper_markdown(about, found, "pictures/")
    assert "3,388.6 (3,370.0 .. 3,400.0); paper: 3,408.8" in page
    assert "3,388.6 (3,370.0 .. 3,400.0); paper: 3,408.8" in text
    assert "A &lt;paper&gt;" in page
    assert "<paper>" not in page
    assert page.count("<svg") == len(KINDS)
    assert "](pictures/lines.svg)" in text
    assert "hindcast x" in page
    assert "direction yes; size smaller" in text
    assert "A quick run" in page
    assert not re.search(r'(src|href)="https?:', page)


def test_claims_are_counted_by_verdict(results):
    assert [group_of(claim) for claim in results.claims.to_dicts()] == [
        "comes again", "holds, but shrinks", "not shown", "does not come again",
    ]  # fmt: skip
    assert set(counts(results.claims).values()) == {1}
    markdown, page = (f([(ABOUT, results)]) for f in (evidence_markdown, evidence_html))
    assert "| A \\<paper\\> | 1 | 1 | 1 | 1 |" in markdown
    assert "b is above c" in markdown.partition("Holds, but shrinks")[2]
    assert 'href="made/index.html"' in page


def test_cells_without_a_number_are_a_dash(results):
    head, lines = cells_of(results.tables)
    assert head == ["", "reward"]
    assert lines[1] == ["sjf", "3,361.0"]


def test_a_figure_needs_points_and_numbers(results):
    with pytest.raises(DatasetError, match=r"figure 'other' has a text, but no points"):
        panels(results.figures, {"other": FigureText("O", "lines", "x", "y")})
    words = points("bars").with_columns(figure=pl.lit("lines"))
    with pytest.raises(DatasetError, match=r"'low', 'middle', 'high'.*expected numbers"):
        draw(words, FigureText("O", "lines", "x", "y"), "lines", "")


@pytest.mark.slow
def test_a_damaged_folder_is_named(results, tmp_path):
    write_results(tmp_path, results, ABOUT)
    (tmp_path / "claims.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DatasetError, match=r"claims\.csv: this table cannot be read"):
        read_results(tmp_path)
    (tmp_path / "paper.json").write_text("{}")
    with pytest.raises(DatasetError, match=r"paper\.json: this file is damaged"):
        read_results(tmp_path)


def test_published_numbers_are_unique_and_have_a_place():
    table = pl.read_csv(FILE, schema=SCHEMA)
    assert table.select("paper", "item", "row", "column").is_duplicated().sum() == 0
    assert table.null_count().select(pl.exclude("unit")).sum_horizontal().item() == 0


def test_a_number_that_is_not_printed_is_none():
    rows = pl.DataFrame(
        [("osdec", "table 1", "fifo", "reward", 3408.82, "-", "p. 9")], schema=SCHEMA, orient="row"
    )
    assert number(rows, "table 1", "fifo", "reward") == 3408.82
    assert number(rows, "table 1", "fifo", "delay") is None
    with pytest.raises(Exception, match="nobody"):
        published("nobody")
