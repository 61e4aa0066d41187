"""Tests of the table of rules and agents of `queue` side by side."""

import json
import shutil
from dataclasses import replace

import pytest

from docs.generate import queue_rules as q
from docs.generate.results import FOLDER, RULES
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.recipes.shipped import recipe_folder
from hindcast.pipeline.storage.provenance import NOT_RECORDED
from tests.policies.test_queue import recipe, recipe_file

__all__ = ["recipe", "recipe_file"]  # fixtures


@pytest.fixture(scope="module")
def rows():
    return q._read(RULES)


def test_the_committed_table_has_every_part_of_every_log(rows):
    parts = {(row["part"], row["log"]) for row in rows}
    assert parts == {(p, log) for log, s in q.SOURCES.items() for p, _, _ in q._parts(s)}
    records = json.loads((FOLDER / "provenance.json").read_text(encoding="utf-8"))
    for row in rows:
        own = row["policy"] == q.BASE
        assert own == (row["difference"] == "")
        counts = [int(row[name]) for name in ("wins", "ties", "losses") if not own]
        assert sum(counts) == (0 if own else int(row["windows"]))
        assert set(row["provenance"].split()) <= {*records, NOT_RECORDED}


def test_windows_between_are_counted_by_no_window_of_a_recipe():
    found = 0
    for source in q.SOURCES.values():
        parts = {name: recipe for name, recipe, _ in q._parts(source)}
        if "between" not in parts:
            continue
        config = parts["test"].config
        counted = {job for first in config.starts for job in range(first, first + config.jobs)}
        starts = parts["between"].config.starts
        assert len(starts) == len(parts["test"].windows("test"))
        assert not any(job in counted for first in starts for job in (first, first + 255))
        found += 1
    assert found == 3


def test_a_page_marks_what_is_better_and_names_seeds(rows):
    page = q.queue_rules_pages()["parts/queue-rules-test.md"]
    assert page.count("| policy |") == len(q.SOURCES)
    blue = page[page.index("**SDSC Blue**") : page.index("**HPC2N**")]
    row = next(line for line in blue.splitlines() if line.startswith("| `wsept_easy`"))
    wanted = next(r for r in rows if (r["part"], r["log"], r["policy"])
                  == ("test", "SDSC Blue", "wsept_easy"))  # fmt: skip
    assert f"**{float(wanted['difference']):+.1f} (" in row
    assert float(wanted["high"]) < 0


@pytest.mark.slow
def test_seeds_of_an_agent_are_one_row_beside_the_released_one(recipe, tmp_path):
    released = recipe_folder() / "queue-kth-online" / "agent"
    for seed in (0, 1):
        shutil.copytree(released, tmp_path / "agents" / "again" / f"seed{seed}" / "best")
    entrants = q._entrants(recipe, q.Source("queue-kth-online", 0), tmp_path / "agents")
    evaluate(replace(recipe, id="small"), entrants, split="test", out=tmp_path / "out")
    found = {row["policy"]: row for row in q._rows("test", "small", tmp_path / "out")}
    assert set(found) == {*q.RULES, q.RELEASED, "again"}
    assert (found["again"]["seeds"], found[q.RELEASED]["seeds"]) == (2, 1)
    for name in ("slowdown", "difference", "longest_wait_h", "wait_h"):
        assert found["again"][name] == pytest.approx(found[q.RELEASED][name])
    assert found[q.BASE]["difference"] is None
