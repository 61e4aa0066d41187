"""Liu et al.: a network that values each pair of application and cluster."""
