"""Commands of several steps; each step is a separate request, which a flow runs as a task."""
