"""Decision makers: heuristics, behaviour mixtures, agents that learn offline."""
