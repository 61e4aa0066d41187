"""Compiled rules, one module per scenario."""
