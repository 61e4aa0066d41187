"""Tests that malformed lines neither stop the reader nor disappear."""

import gzip
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import text_rows as rows_module
from hindcast.pipeline.traces.field_checks import count_fault, number_fault
from hindcast.pipeline.traces.text_rows import fold, scan_rows, sift
from hindcast.pipeline.workloads.schema import QUARANTINE_COLUMNS


def scanned(path: Path, content: bytes, **options: int) -> list[tuple[object, ...]]:
    path.write_bytes(content)
    frame = scan_rows(path, ("a", "", "c"), **options)
    return frame.collect(engine="streaming").drop("text").rows()


def test_ragged_lines_are_kept_with_their_number_and_their_reason(tmp_path: Path) -> None:
    content = b"1,2,3\n1,2\n1\n1,2,3,4\n5,6,7\n"
    assert scanned(tmp_path / "a.csv", content) == [
        (1, "1", "3", None),
        (2, "1", None, "2 columns, expected 3"),
        (3, "1", None, "1 column, expected 3"),
        (4, "1", "3", "4 columns, expected 3"),
        (5, "5", "7", None),
    ]


def test_mark_carriage_returns_blank_lines_and_a_missing_last_newline_are_no_defects(
    tmp_path: Path,
) -> None:
    content = b"\xef\xbb\xbfx,y,z\r\n\r\n1,2,3\r\n   \n4,5,6"
    assert scanned(tmp_path / "a.csv", content, header_line=1) == [
        (3, "1", "3", None),
        (5, "4", "6", None),
    ]


def test_bytes_that_are_no_utf8_and_control_characters_are_bad_rows(tmp_path: Path) -> None:
    found = scanned(tmp_path / "a.csv", b"1,\xff\xfe,3\n1,2,3\x01,4\n7,8,9\n")
    assert [row[-1] for row in found] == [
        "the row is not valid UTF-8",
        "a control character (0x01) in the row",
        None,
    ]


def test_blanks_and_quotes_around_a_field_are_removed_and_nothing_is_null(tmp_path: Path) -> None:
    assert scanned(tmp_path / "a.csv", b' "1" ,2, \n') == [(1, "1", None, None)]


def test_gzip_reads_like_plain(tmp_path: Path) -> None:
    content = b"1,2,3\n4,5\n"
    plain = scanned(tmp_path / "a.csv", content)
    assert scanned(tmp_path / "a.csv.gz", gzip.compress(content)) == plain


def test_brackets_in_a_file_name_are_no_pattern(tmp_path: Path) -> None:
    assert scanned(tmp_path / "a[1]*.csv", b"1,2,3\n") == [(1, "1", "3", None)]


@pytest.mark.parametrize(
    ("value", "number", "whole"),
    [
        ("abc", "a is 'abc', expected a number", "a is 'abc', expected a number"),
        ("nan", "a is 'nan', expected a number", "a is 'nan', expected a number"),
        ("-inf", "a is '-inf', expected a number", "a is '-inf', expected a number"),
        ("1e999", "a is '1e999', expected a number", "a is '1e999', expected a number"),
        (None, "a is missing, expected a number", "a is missing, expected a number"),
        ("1.5", None, "a is 1.5, expected a whole number of at least 1"),
        ("0", None, "a is 0, expected a whole number of at least 1"),
        ("1e30", None, "a is 1e30, expected a whole number of at least 1"),
        ("283.0", None, None),
    ],
)
def test_faults_say_what_was_found_and_what_was_expected(
    value: str | None, number: str | None, whole: str | None
) -> None:
    frame = pl.DataFrame({"a": [value]}, schema={"a": pl.String})
    assert frame.select(number_fault("a")).item() == number
    assert frame.select(count_fault("a")).item() == whole


def test_limits_tell_zero_from_negative() -> None:
    frame = pl.DataFrame({"a": ["-1", "0", "1", None, "x"]})
    unlimited = [None, "a is missing, expected a number", "a is 'x', expected a number"]
    above = frame.select(number_fault("a", above=0)).to_series().to_list()
    at_least = frame.select(number_fault("a", at_least=0)).to_series().to_list()
    assert above == ["a is -1, expected more than 0", "a is 0, expected more than 0", *unlimited]
    assert at_least == ["a is -1, expected at least 0", None, *unlimited]


def test_a_sound_row_left_out_is_counted_and_a_bad_row_is_quarantined(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,2,3\n1,2\n8,2,3\n8,2,3\n")
    eight = pl.when(pl.col("a") == "8").then(pl.lit("an eight"))
    sifted = sift(path, scan_rows(path, ("a", "", "c")).with_columns(left_out=eight), "triples")
    assert (sifted.read, sifted.quarantined, sifted.left_out) == (4, 1, {"an eight": 2})
    assert sifted.rows.collect()["line"].to_list() == [1]
    assert sifted.quarantine.schema == QUARANTINE_COLUMNS
    assert sifted.quarantine.rows() == [("a.csv", 2, "2 columns, expected 3", "1,2")]


def test_the_quarantine_keeps_the_first_rows_and_counts_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "QUARANTINE_LIMIT", 3)
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,2,3\n" + b"x\n" * 50)
    sifted = sift(path, scan_rows(path, ("a", "", "c")), "triples")
    assert sifted.quarantined == 50
    assert sifted.quarantine["line"].to_list() == [2, 3, 4]


def test_a_long_bad_row_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,2,3\n" + b"y" * 5000 + b"\n")
    assert sift(path, scan_rows(path, ("a", "", "c")), "x").quarantine["text"].to_list() == [
        "y" * 200
    ]


def test_nothing_but_bad_rows_is_another_format(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"hello\nworld\n")
    expected = r"a\.csv: none of its 2 rows can be read as triples; line 1: 1 column, expected 3"
    with pytest.raises(TraceError, match=expected):
        sift(path, scan_rows(path, ("a", "", "c")), "triples")


def test_a_file_that_begins_with_many_bad_rows_is_not_read_on(tmp_path: Path, monkeypatch) -> None:
    """A sound row after them is not reached, whereas one among them saves the file."""
    monkeypatch.setattr(rows_module, "_HOPELESS", 5)
    (tmp_path / "a.csv").write_text("x\n" * 5 + "1,2,3\n")
    (tmp_path / "b.csv").write_text("x\n" * 4 + "1,2,3\n" + "x\n" * 9)
    a, b = (scan_rows(tmp_path / name, ("a", "b", "c")) for name in ("a.csv", "b.csv"))
    with pytest.raises(TraceError, match=r"none of its first 5 rows .* line 1: 1 column"):
        sift(tmp_path / "a.csv", a, "triples")
    assert sift(tmp_path / "b.csv", b, "triples").quarantined == 13


def test_a_damaged_gzip_file_is_a_trace_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d,2,3\n" % i for i in range(100_000)))[:-9000])
    with pytest.raises(TraceError, match="cannot be read to its end"):
        sift(path, scan_rows(path, ("a", "", "c")), "triples")


def test_folding_batches_gives_what_grouping_the_whole_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "_BATCH_ROWS", 7)
    frame = pl.DataFrame({"k": [i * i % 13 for i in range(500)], "v": list(range(500))})
    sums = [pl.col("v").sum()]
    folded = fold(frame.lazy(), ("k",), sums, tmp_path).sort("k")
    assert folded.equals(frame.group_by("k").agg(*sums).sort("k"))
    assert fold(frame.lazy().filter(pl.col("k") > 99), ("k",), sums, tmp_path).is_empty()


def test_a_line_that_begins_with_a_control_character_is_quarantined(tmp_path: Path) -> None:
    found = scanned(tmp_path / "p.csv", b"0,0,0\n\x01abc\n \x011,2,3\n1,2,3\n\x01\n")
    assert [row[0] for row in found] == [1, 2, 3, 4]
    reason = "a control character (0x01) in the row"
    assert [row[-1] for row in found] == [None, reason, reason, None]


LINE = st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=12)


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(
        LINE
        | st.sampled_from(["1,2,3", "1,2", ",,", '"1",2,x', "\x01", "\x01,2", "1,2,3\x01\x01,"]),
        max_size=8,
    )
)
def test_every_line_that_is_not_blank_is_one_row(tmp_path: Path, lines: list[str]) -> None:
    """For any text there are as many rows as lines, in order, and sound rows have three fields."""
    content = "\n".join(["0,0,0", *lines])
    found = scanned(tmp_path / "p.csv", content.encode())
    written = content.split("\n")
    numbers = [row[0] for row in found]
    assert numbers == sorted(set(numbers))
    for at in set(range(1, len(written) + 1)) - set(numbers):
        assert not any(part.strip() for part in written[at - 1].split("\x01")[:2])
    sound = [row[0] for row in found if row[-1] is None]
    assert all(written[at - 1].split("\x01")[0].count(",") == 2 for at in sound)
