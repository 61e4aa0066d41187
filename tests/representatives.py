"""Parameters of tests that are repeated for every agent, recipe or page.

`make test` runs a few representatives, `make nightly` all.
"""

from collections.abc import Container, Iterable

import pytest


def nightly_but(kept: Container[object], values: Iterable[object]) -> list[object]:
    """Return the values as parameters, all marked nightly but for those that are kept."""
    return [
        each
        if each in kept
        else pytest.param(*each, marks=pytest.mark.nightly)
        if isinstance(each, tuple)
        else pytest.param(each, marks=pytest.mark.nightly)
        for each in values
    ]
