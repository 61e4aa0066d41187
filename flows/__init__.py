"""Command line and Prefect flows on top of `pipeline` and `policies`, which do the work."""
