"""Tests mirror the packages; `conformance` is what every scenario must pass."""
