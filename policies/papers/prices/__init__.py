"""Learned prices of coming slots for an exact knapsack; our own agent for `deferrable`."""
