"""Output of Slurm: its header, rows that free text broke, fields, states, and JSON."""
