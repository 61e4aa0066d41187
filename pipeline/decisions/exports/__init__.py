"""Exports of logs of decisions, one format per file; pipeline/exports lists them."""
