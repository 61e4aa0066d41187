"""Tests of the table of agents on grids: test zones that training lacks, and paired intervals."""

import csv

import numpy as np

from docs.generate import grid_agents as g
from docs.generate import grid_settings as s
from hindcast.pipeline.recipes.loading import load_recipe


def test_every_third_zone_by_name_is_left_for_tests() -> None:
    trained = load_recipe("deferrable-grid-zones-v1").config.zone.split(", ")
    every = sorted([*trained, *g.ZONES])
    assert len(set(every)) == 62
    assert tuple(every[2::3]) == g.ZONES


def test_an_interval_is_of_sums_of_zones_and_of_seeds() -> None:
    now = np.array([[1.0, 3.0], [10.0, 10.0]])
    less = np.array([[[0.1, 0.3], [2.0, 2.0]], [[0.3, 0.5], [4.0, 4.0]]])
    mean, low, high = g.interval(less, now)  # 15 % of one zone and 30 % of the other
    assert np.isclose(mean, (0.6 / 4 + 3.0 / 10) / 2 * 100)
    assert low < mean < high
    assert high <= (0.8 / 4 + 4.0 / 10) / 2 * 100 + 10
    alike = g.interval(0.2 * now[None], now)
    assert np.allclose(alike, 20.0)


def test_the_table_has_a_row_for_every_rule_agent_and_the_bound() -> None:
    with g.TABLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    agents = {
        "zones": ("evolution", "advantage_cloning", "behaviour_cloning"),
        "years": ("evolution",),
    }  # fmt: skip
    for problem, names in agents.items():
        found = {row["policy"]: row for row in rows if row["problem"] == problem}
        assert {*g.RULES, "bound", *names} == set(found)
        best = float(found["bound"]["saved_percent"])
        assert all(float(row["saved_percent"]) <= best for row in found.values())
        assert float(found[g.BASE]["less"]) == 0.0
        page = g.grid_agents_pages()[f"parts/grid-agents-{problem}.md"]
        assert all(f"| `{policy}`" in page for policy in found)
        assert all(f"| `{agent}`, 5 seeds |" in page for agent in names)


def test_no_training_has_the_year_of_the_tests() -> None:
    recipe = load_recipe("deferrable-grid-years-online")
    problem = g.PROBLEMS["years"]
    assert recipe.config.last_day < "2023"
    assert problem.settings == ('config.first_day="2024-01-01"', 'config.last_day="2024-12-31"')
    assert set(problem.zones) - set(recipe.config.zone.split(", ")) == {"US-TEX-ERCO"}


def test_the_tables_of_settings_are_those_of_the_file() -> None:
    """Every group has a row for every setting and rule, with the numbers of the CSV, rounded."""
    with s.TABLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    wanted = [
        (group, cores, " ".join(settings), rule)
        for group, of in s.GROUPS.items() for cores, settings, rules in of for rule in rules
    ]  # fmt: skip
    assert [
        tuple(row[n] for n in ("table", "cores", "settings", "policy")) for row in rows
    ] == wanted
    pages = s.grid_settings_pages()
    for group in s.GROUPS:
        lines = pages[f"parts/grid-{group}.md"].splitlines()[2:]
        own = [row for row in rows if row["table"] == group]
        assert len(lines) == len(own)
        for line, row in zip(lines, own, strict=True):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert cells[:2] == [row["cores"], f"`{row['policy']}`"]
            assert float(cells[2]) == round(float(row["saved_percent"]), 1)
    assert all(row["reserved_use"] for row in rows if row["table"] == "reserved")
