"""Proposals of the mapping of a log of decisions, from its names and values."""
