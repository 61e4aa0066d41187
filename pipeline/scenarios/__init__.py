"""The scheduling problems, one module each; pipeline.scenario lists them."""
