"""OSDEC: one network call scores all jobs of a slot of `deferrable`."""
