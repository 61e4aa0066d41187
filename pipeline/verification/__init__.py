"""Verification: every claim of a dataset is recomputed."""
