"""Agent for `deferrable` that learns prices of coming slots for an exact knapsack (ours)."""
