"""Tests that committed reproductions agree with themselves and with the published numbers."""

import pytest

from docs.generate.papers import committed, paper_pages, shown
from hindcast.flows.papers.folder import light_colors, read_results
from hindcast.flows.papers.plots import file_name, panels
from hindcast.flows.papers.published import number, published
from hindcast.pipeline.report import svg


@pytest.mark.slow
def test_pages_are_generated_for_what_is_committed():
    pages = paper_pages()
    assert "papers/evidence.md" in pages
    assert {f"papers/{name}.md" for name in committed()} <= set(pages)


@pytest.mark.slow
def test_earlier_intervals_are_widened_and_verdicts_follow():
    """No shown interval is as narrow as the committed one, and none that holds 0 has a sign."""
    wider = 0
    for folder in committed().values():
        (_, before), (_, after) = read_results(folder), shown(folder)
        assert after.tables["low"].null_count() == len(after.tables)
        for old, new in zip(before.claims.to_dicts(), after.claims.to_dicts(), strict=True):
            if new["low"] is None:
                assert old["low"] is None or "2 seeds" in old["differs"]
                continue
            equal = old["low"] == old["high"]
            assert equal or new["low"] < old["low"] <= old["high"] < new["high"]
            wider += not equal
            if new["low"] <= 0.0 <= new["high"]:
                assert new["direction"] in {"not shown", "-"}
            else:
                assert new["direction"] == old["direction"]
    assert wider > 0


@pytest.mark.nightly
def test_pictures_and_published_numbers_are_those_of_the_tables():
    for name, folder in committed().items():
        _, results = shown(folder)
        drawn = {
            file_name(*key): svg.standalone(markup, light_colors())
            for key, markup in panels(results.figures, results.figure_texts).items()
        }
        assert {path.name for path in folder.glob("*.svg")} == set(drawn)
        for file, text in drawn.items():
            assert (folder / file).read_text() == text
        printed = published(name)
        known = printed["value"].drop_nulls().to_list()
        for cell in results.tables.to_dicts():
            wanted = number(printed, cell["table"], cell["row"], cell["column"])
            if wanted is not None:
                assert cell["published"] == pytest.approx(wanted, 1e-5)
            elif cell["published"] is not None:  # shown again in a table that is not in the paper
                assert any(cell["published"] == pytest.approx(one, 1e-5) for one in known)
