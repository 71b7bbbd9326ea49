"""Why a step became slower: time, functions, plans, rates."""
