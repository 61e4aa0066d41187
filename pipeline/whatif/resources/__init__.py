"""Resources of a run beside processors: capacities, what jobs ask for, and the compiled ones."""
