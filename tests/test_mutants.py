"""Tests that the faults of mutants.toml can be inserted: their places and tests exist."""

import ast

import pytest

from tests import mutants


@pytest.mark.slow
@pytest.mark.parametrize("mutant", mutants.mutants(), ids=lambda m: m[0])
def test_its_place_stands_once_and_its_tests_are_there(mutant):
    _name, text, old, new, tests = mutant
    found = mutants.place(mutants.REPOSITORY, text)
    assert not isinstance(found, str), found
    path, match = found
    edited = mutants.edited(path.read_text(encoding="utf-8"), match, old, new)
    assert edited is not None
    ast.parse(edited)
    ids, _missing = mutants.test_ids(mutants.REPOSITORY, tests)
    assert ids
