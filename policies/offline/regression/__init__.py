"""Agents that are fitted by least squares."""
