"""Calibration tables: a scenario run by its published rules, beside the published numbers."""
