"""How flights are flown: the roll-out loop, policies and agents, the oracle and the trivial pilots."""
