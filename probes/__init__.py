"""Probes: scheduler and planner latency of running PostgreSQL servers, by bpftrace, at a cost that is known.

`table` says which there are, `session` runs one, `helper` is the only part that is privileged.
"""
