"""Commands of many steps: each step is a request of its own, which a flow runs as a task."""
