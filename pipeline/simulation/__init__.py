"""Compiled episodes: the contract of scenarios, policies, and loops that run both."""
