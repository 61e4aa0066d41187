"""The committed pages of results are what the committed tables give, and nothing else."""

from pathlib import Path

import pytest

from pipeline.errors import DatasetError
from pipeline.evaluation.summary.results import main, results_markdown
from pipeline.studies.page import study_markdown
from pipeline.studies.study import COLUMNS
from policies.ope import selection_table as selection
from policies.ope.selection_table import selection_markdown

PAGES = {",".join(COLUMNS): study_markdown, ",".join(selection.COLUMNS): selection_markdown}
FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results"
TABLES = sorted(FOLDER.glob("*.csv"))


@pytest.mark.parametrize("path", TABLES, ids=lambda p: p.name)
def test_a_committed_page_is_what_its_table_gives(path):
    content = path.read_bytes()
    head = content.split(b"\n", 1)[0].decode()
    page = PAGES.get(head, results_markdown)
    assert path.with_suffix(".md").read_text(encoding="utf-8") == page(content, path.name)


def test_the_command_makes_the_page_beside_the_table(tmp_path):
    table = tmp_path / "offline.csv"
    table.write_bytes((FOLDER / "offline.csv").read_bytes())
    main([str(table)])
    assert table.with_suffix(".md").read_bytes() == (FOLDER / "offline.md").read_bytes()


def test_a_table_with_a_column_less_or_a_word_for_a_number_is_refused():
    rows = (FOLDER / "offline.csv").read_text().splitlines()
    with pytest.raises(DatasetError, match=r"x\.csv: expected the columns scenario"):
        results_markdown("\n".join(r.partition(",")[2] for r in rows).encode(), "x.csv")
    cells = rows[1].split(",")
    cells[rows[0].split(",").index("mean")] = "many"
    with pytest.raises(DatasetError, match=r"x\.csv: "):
        results_markdown((rows[0] + "\n" + ",".join(cells)).encode(), "x.csv")
