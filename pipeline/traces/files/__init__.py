"""Raw files as they lie on the disk: compressed, in folders, or of a kind that cannot be read."""
