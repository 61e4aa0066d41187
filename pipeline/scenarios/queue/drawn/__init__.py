"""Run times drawn from completed runs, and futures of an episode with them."""
