"""Settings: what their numbers may be."""
