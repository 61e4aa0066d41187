"""Agents that learn from pairs of episodes."""
