"""Liu et al.: values of pairs of application and cluster."""
