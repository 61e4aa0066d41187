"""OSDEC: scores for every job of a slot."""
