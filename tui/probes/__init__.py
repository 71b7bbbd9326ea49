"""Probes: the status of each, its figures, and switching it in a running step."""
