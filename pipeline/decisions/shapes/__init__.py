"""Readers of logs of decisions, one file per shape; each yields batches of decisions."""
