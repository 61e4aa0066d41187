"""Tests of the generators of random draws."""

import itertools

from hindcast.pipeline.simulation.seeds import generator


def test_every_part_of_a_key_changes_the_draws():
    """Windows, repetitions, purposes and recipe seeds share no draws."""
    keys = list(itertools.product((0, 1), ("instance", "random"), (0, 1, 2), (0, 1, 2)))
    draws = {generator(*key).random() for key in keys}
    assert len(draws) == len(keys)
    assert generator(*keys[5]).random() in draws
