"""Campaigns that attack the program at length; each is a command, none is a test of `make test`."""
