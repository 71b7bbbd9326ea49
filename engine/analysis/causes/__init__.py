"""Reasons why a step became slower: time, functions, plans, rates."""
