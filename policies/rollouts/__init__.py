"""Compiled play for agents: trajectories, branches, lookahead."""
