"""Settings: ranges of their numbers."""
