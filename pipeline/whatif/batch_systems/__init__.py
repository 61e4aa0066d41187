"""Settings of Slurm and PBS: read, played as a policy, and advised."""
