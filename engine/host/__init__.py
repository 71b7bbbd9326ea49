"""The machine: what its kernel counts, how it is set, what changed, who runs servers, free disk, the host's lock.

Hands out readings as plain values. Knows nothing of PostgreSQL.
"""
