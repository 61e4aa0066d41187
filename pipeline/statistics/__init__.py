"""Statistics of results: intervals, discounted returns and written numbers."""
