"""One folder per paper: networks and agents that only its reproduction needs."""
