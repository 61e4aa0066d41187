"""Implementation of the commands `list`, `show` and `diff`."""
