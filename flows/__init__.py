"""Prefect flows and the command line over `pipeline` and `policies`; thin by intent."""
