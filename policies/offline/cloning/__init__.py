"""Agents that imitate logged choices."""
