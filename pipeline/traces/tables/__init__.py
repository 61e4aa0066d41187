"""Tables of jobs: their mappings, and what is proposed for a table that has none."""
