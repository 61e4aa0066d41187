"""The commands `list`, `show` and `diff`."""
