"""Compiled episodes: the contract of scenarios, policies, and the loops that run them."""
