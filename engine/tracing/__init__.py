"""Probes attached to the cell that runs: which, for how long, and what they report, by step and role.

Hands out a context manager over a server. Knows scripts and their output only by the package `probes`.
"""
