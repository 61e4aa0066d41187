"""Building datasets: behaviours are simulated and every decision is recorded."""
