"""Settings: typed reading of dataclasses, and ranges of their numbers."""
