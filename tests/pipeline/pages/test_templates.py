"""Tests of templates: white space and escapes of HTML, wrapped paragraphs, unknown names."""

import jinja2
import pytest

from hindcast.pipeline.pages.markdown import wrapped
from hindcast.pipeline.pages.tables import (
    NOTHING,
    Badge,
    Cell,
    Column,
    Difference,
    Measured,
    Row,
    Table,
)
from hindcast.pipeline.pages.templates import on_one_line, render


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("<p>\n  one\n  two\n</p>", "<p>one two</p>"),
        ("a {{ b }}\n{{ c }} d", "a {{ b }} {{ c }} d"),
        ("{{ table(\n  b\n) }}\n{{ c }}\n<p>", "{{ table( b ) }}{{ c }}<p>"),
        ("a\n{% if b %}\n, c\n{% endif %}\nd", "a{% if b %}, c{% endif %}d"),
        ("it's <i title=\"it's\">", 'it&#x27;s <i title="it\'s">'),
        ('{{ "it\'s" }}', '{{ "it\'s" }}'),
    ],
    ids=["text", "expressions", "alone", "blocks", "quotes", "code"],
)
def test_white_space_vanishes_beside_tags_and_blocks_alone(source, line):
    assert on_one_line(source) == line


def test_values_are_escaped_and_tables_are_drawn(tmp_path):
    page = tmp_path / "a.html.jinja"
    page.write_text('{% from "parts.html.jinja" import table %}\n{{ table(of) }}')
    cells = [
        Cell("<a>", badges=[Badge("it's", "x")]), Cell("1", 1.0, "0 .. 2", "better"),
        Cell("b", code=True), Cell("c", link="c/"), Cell("2 / 0 / 2", record={"w": 50, "l": 50}),
    ]  # fmt: skip
    of = Table("T", " & more", ["h"] * len(cells), [Row(cells, "bound", pinned=True)])
    text = render(page, of=of)
    assert "<strong>T</strong> &amp; more</span></caption>" in text
    assert text.partition("<tbody>")[2].partition("</tbody>")[0] == (
        '<tr class="bound" data-pinned>'
        '<th scope="row">&lt;a&gt; <span class="badge x">it&#x27;s</span></th>'
        '<td data-sort="1.0"><span class="better">1</span><small>0 .. 2</small></td>'
        '<td><code>b</code></td><td><a href="c/">c</a></td>'
        '<td><span class="record">2 / 0 / 2<span class="bar" aria-hidden="true">'
        '<i class="w" style="width:50.0%"></i><i class="l" style="width:50.0%"></i></span></span>'
        "</td></tr>"
    )


def test_a_table_writes_its_numbers_with_the_decimals_of_their_columns():
    """Small differences have up to two more, and a whole number without an interval has none."""
    like = Column("mean", like=[12.5, 140.0, None])
    cells = [
        (like, 12.345, "12.3", ""),
        (like, None, NOTHING, ""),
        (like, Measured(12.345, 11.0, 13.25), "12.3", "11.0 .. 13.2"),
        (like, Measured(12.0), "12", ""),
        (like, Measured(12.5), "12.5", ""),
        (like, Difference(40.0, -2.0, 50.5), "+40.0", "-2.0 .. +50.5"),
        (like, Difference(0.04, 0.012, 0.05), "+0.04", "+0.01 .. +0.05"),
        (like, Difference(0.04, of=(2.0, 1.96)), "0.0", "2.0 against 2.0"),
        (like, Difference(None), NOTHING, ""),
        (Column("share", decimals=3), 0.5, "0.500", ""),
        ("text", Cell("a"), "a", ""),
    ]
    of = Table("T", "", [column for column, *_ in cells], [Row([cell[1] for cell in cells])])
    (row,) = of.written
    for cell, (_, content, text, small) in zip(row.cells, cells, strict=True):
        assert (cell.text, cell.small) == (text, small), content
    assert [cell.sort for cell in row.cells[:3]] == [12.345, None, 12.345]


def test_a_name_that_nobody_gave_is_an_error(tmp_path):
    (tmp_path / "a.md.jinja").write_text("{{ missing }}")
    with pytest.raises(jinja2.UndefinedError):
        render(tmp_path / "a.md.jinja")


def test_a_paragraph_keeps_its_last_newline_and_indents_the_others():
    text = wrapped("- " + "word " * 30 + "\n", "  ")
    first, second, end = text.split("\n")
    assert len(first) <= 98
    assert second.startswith("  word")
    assert end == ""
    assert wrapped("a\n   b") == "a b"
