"""How tasks are flown: the roll-out loop, the policy protocol, the oracle and the trivial policies."""
