"""Futures of an episode, with run times that are drawn from completed runs."""
