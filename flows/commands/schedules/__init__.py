"""Commands about schedules: write one, compare two policies on a window, ask why a job waited."""
