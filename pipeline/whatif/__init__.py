"""Counterfactual runs of a recorded log: replay, grade, changed worlds, shakes, priorities."""
