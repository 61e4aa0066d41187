"""Compiled episodes of networks and rules: trajectories, counterfactual branches, lookahead."""
