"""Probes attached to the running cell: which, for how long, and their counts by step and role.

Provides a context manager over a server. Uses scripts and their output only through the package `probes`.
"""
