"""Digests of compiled functions: they change with everything that a function is compiled from."""

from typing import NamedTuple

import pytest
from numba import njit, types
from numba.core.bytecode import FunctionIdentity

from hindcast.pipeline.simulation.compiled_files import digest_of, number_at_random

SOURCE = """
import math
from typing import NamedTuple

import numpy as np

RATE = 1.5
PLACES = (0, (1, 2))
TABLE = np.array([1.0, 2.0])


class Columns(NamedTuple):
    cores: int
    share: int


ROW = Columns(3, 4)


def inner(x):
    return x + 1.0


def countdown(n):
    return 0 if n == 0 else countdown(n - 1)


def outer(x):
    many = [RATE * y for y in (1.0, 2.0)]
    return inner(x) + PLACES[1][0] + TABLE[0] + ROW.cores + countdown(3) + np.sort(many)[0]


def closed(value):
    def add(x):
        return x + value + math.pi
    return add


{extra}
"""


def names_of(source, extra=""):
    """Return what a module with this source defines."""
    found = {"__name__": "module"}
    exec(source.replace("{extra}", extra), found)
    return found


def test_two_modules_with_the_same_code_have_the_same_digest():
    one, other = names_of(SOURCE), names_of(SOURCE, "UNUSED = 5")
    assert digest_of(one["outer"]) == digest_of(other["outer"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("RATE = 1.5", "RATE = 2.5"),
        ("(0, (1, 2))", "(0, (1, 3))"),
        ("[1.0, 2.0]", "[1.0, 2.5]"),
        ("np.array([1.0, 2.0])", "np.array([1.0, 2.0], np.float32)"),
        ("Columns(3, 4)", "Columns(3, 5)"),
        ("    cores: int\n    share: int", "    share: int\n    cores: int"),
        ("x + 1.0", "x + 2.0"),
        ("x + 1.0", "x - 1.0"),
        ("countdown(n - 1)", "countdown(n - 2)"),
    ],
)
def test_the_digest_changes_with_what_the_function_uses(before, after):
    assert before in SOURCE
    one, other = names_of(SOURCE), names_of(SOURCE.replace(before, after))
    assert digest_of(one["outer"]) != digest_of(other["outer"])


def test_the_digest_changes_with_the_fields_of_a_named_tuple_that_is_made():
    extra = "def outer(x):\n    return Columns(x, 2).cores"
    swapped = SOURCE.replace("    cores: int\n    share: int", "    share: int\n    cores: int")
    one, other = (digest_of(names_of(s, extra)["outer"]) for s in (SOURCE, swapped))
    assert one != other


def test_the_digest_changes_with_the_values_of_a_closure():
    closed = names_of(SOURCE)["closed"]
    assert digest_of(closed(1)) == digest_of(closed(1))
    assert digest_of(closed(1)) != digest_of(closed(2))


@pytest.mark.parametrize("options", [{"forceinline": True}, {"fastmath": {"contract", "nsz"}}])
def test_the_digest_changes_with_the_options_of_a_function_that_is_called(options):
    one, same, other = (names_of(SOURCE) for _ in range(3))
    for names, own in ((one, {}), (same, {}), (other, options)):
        names["inner"] = njit(**own)(names["inner"])
    assert digest_of(one["outer"]) == digest_of(same["outer"]) != digest_of(other["outer"])


def test_the_digest_changes_with_the_order_of_the_fields_of_a_tuple_in_the_signature():
    """A field is compiled as its place, and a type of numba is equal for both orders."""
    inner = names_of(SOURCE)["inner"]
    kinds = [types.int64, types.float64, types.int64]
    one, other = (
        types.float64(types.NamedTuple(kinds, NamedTuple("Of", [(name, int) for name in names])))
        for names in (("jobs", "rate", "cores"), ("cores", "rate", "jobs"))
    )
    assert str(one) == str(other)
    assert digest_of(inner, one) != digest_of(inner, other)
    assert digest_of(inner, [one, other]) != digest_of(inner, [one, one])


def test_numba_takes_its_numbers_from_the_random_ones():
    """A numba that numbers functions elsewhere would let symbols of two processes meet again."""
    number_at_random()
    found = {FunctionIdentity.from_function(names_of).unique_id for _ in range(3)}
    assert len(found) == 3
    assert max(found) > 2**32
