"""Verification: recomputation of every claim of a dataset."""
