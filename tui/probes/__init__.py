"""Probes: how each stands, what it counted, and switching it in a running step."""
