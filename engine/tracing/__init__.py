"""Probes attached to the running cell: which, for how long, and what they report, by step and role.

Provides a context manager over a server. Uses scripts and their output only through the package `probes`.
"""
