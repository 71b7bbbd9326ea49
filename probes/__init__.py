"""Probes of running PostgreSQL servers by bpftrace: `table` lists them, `session` runs one, `helper` is privileged."""
