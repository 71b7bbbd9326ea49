"""Probes: scheduler and planner latency of running PostgreSQL servers, by bpftrace, at a known cost.

`table` lists them, `session` runs one, `helper` is the only privileged part.
"""
