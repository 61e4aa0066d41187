"""Measurements, printed as a table of ratios by `make bench`; nothing here is a test."""
