"""Tests of descriptions and formulas of the rules, as in `hindcast list` and the reference."""

import importlib
import re

import pytest

from hindcast.pipeline.scenarios import SCENARIOS
from hindcast.policies.heuristics import heuristics

WITHOUT_COLUMNS = {"random", "random_linear", "random_reference", "first_fit"}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_rule_has_one_line_that_says_what_it_chooses_and_one_with_its_score(scenario):
    rules = heuristics(scenario)
    for name, rule in rules.items():
        assert name == rule.name
        for line in (rule.description, rule.formula):
            assert line, name
            assert line == " ".join(line.split()), name
    assert len({rule.description for rule in rules.values()}) == len(rules)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_formulas_are_in_names_of_columns(scenario):
    """Formulas use names of columns, or refer to another rule by "as NAME"."""
    features = importlib.import_module(f"{SCENARIOS[scenario]}.features")
    for name, rule in heuristics(scenario).items():
        words = set(re.findall(r"[a-z_0-9]+", rule.formula))
        known = set(features.ROW._fields) | heuristics(scenario).keys() - {name}
        assert name in WITHOUT_COLUMNS or words & known, name


def test_the_number_in_a_name_is_explained():
    for name, rule in heuristics("slots").items():
        for number in re.findall(r"\d+", name):
            assert f"for {number} time steps without an arrival" in rule.description
