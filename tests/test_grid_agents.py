"""Tests of the table of agents on grids: test zones that training lacks, and paired intervals."""

import csv

import numpy as np

from docs.generate import grid_agents as g
from hindcast.pipeline.recipes.loading import load_recipe


def test_every_third_zone_by_name_is_left_for_tests() -> None:
    trained = load_recipe("deferrable-grid-zones-v1").config.zone.split(", ")
    every = sorted([*trained, *g.ZONES])
    assert len(set(every)) == 62
    assert tuple(every[2::3]) == g.ZONES


def test_an_interval_is_of_sums_of_zones_and_of_seeds() -> None:
    now = np.array([[1.0, 3.0], [10.0, 10.0]])
    less = np.array([[[0.1, 0.3], [2.0, 2.0]], [[0.3, 0.5], [4.0, 4.0]]])
    mean, low, high = g._interval(less, now)  # 15 % of one zone and 30 % of the other
    assert np.isclose(mean, (0.6 / 4 + 3.0 / 10) / 2 * 100)
    assert low < mean < high
    assert high <= (0.8 / 4 + 4.0 / 10) / 2 * 100 + 10
    alike = g._interval(0.2 * now[None], now)
    assert np.allclose(alike, 20.0)


def test_the_table_has_a_row_for_every_rule_agent_and_the_bound() -> None:
    with g.TABLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {row["policy"]: row for row in rows}
    agents = ("evolution", "advantage_cloning", "behaviour_cloning")
    assert {*g.RULES, "bound", *agents} == set(found)
    best = float(found["bound"]["saved_percent"])
    assert all(float(row["saved_percent"]) <= best for row in rows)
    assert float(found[g.BASE]["less"]) == 0.0
    page = g.grid_agents_pages()["parts/grid-agents.md"]
    assert all(f"| `{policy}`" in page for policy in found)
    assert all(f"| `{agent}`, 5 seeds |" in page for agent in agents)
