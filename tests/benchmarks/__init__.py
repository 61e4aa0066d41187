"""Benchmarks, printed as a table of ratios by `make bench`. Nothing here is a test."""
