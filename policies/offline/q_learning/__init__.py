"""Agents that learn action values with d3rlpy."""
