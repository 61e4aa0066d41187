"""The committed pages of results are what the committed tables give, and nothing else."""

from pathlib import Path

import pytest

from flows import cli
from pipeline.errors import DatasetError
from pipeline.evaluation.summary.results import results_markdown

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results"
TABLES = sorted(FOLDER.glob("*.csv"))


def test_committed_pages_are_what_the_command_makes_of_their_tables(tmp_path):
    """One command for tables of three kinds: results, a study, and rankings of estimators."""
    copies = [tmp_path / path.name for path in TABLES]
    for path, copy in zip(TABLES, copies, strict=True):
        copy.write_bytes(path.read_bytes())
    assert cli.main(["report", *map(str, copies), "--pages"]) == 0
    for path, copy in zip(TABLES, copies, strict=True):
        page = path.with_suffix(".md")
        assert copy.with_suffix(".md").read_bytes() == page.read_bytes(), page.name
    assert {"offline.csv", "data_quality.csv", "ope.csv"} <= {path.name for path in TABLES}


def test_a_table_with_a_column_less_or_a_word_for_a_number_is_refused():
    rows = (FOLDER / "offline.csv").read_text().splitlines()
    with pytest.raises(DatasetError, match=r"x\.csv: expected the columns scenario"):
        results_markdown("\n".join(r.partition(",")[2] for r in rows).encode(), "x.csv")
    cells = rows[1].split(",")
    cells[rows[0].split(",").index("mean")] = "many"
    with pytest.raises(DatasetError, match=r"x\.csv: "):
        results_markdown((rows[0] + "\n" + ",".join(cells)).encode(), "x.csv")
