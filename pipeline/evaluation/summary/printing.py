"""A table on standard output, or what is wrong with the input: the end of every small command."""

import sys
from collections.abc import Callable

import polars as pl

from pipeline.errors import HindcastError


def print_csv(table: Callable[[], pl.DataFrame]) -> int:
    """Print the table as CSV and return 0; of a HindcastError print the message and return 2."""
    try:
        sys.stdout.write(table().write_csv(float_precision=3))
    except HindcastError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0
