"""Whole numbers of a command line."""

import argparse


def positive(text: str) -> int:
    """At least 1."""
    return _whole(text, 1)


def not_negative(text: str) -> int:
    """At least 0."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}: {text!r}")
    return int(text)
