"""The machine: its counters, settings and drift, free disk, and `doctor`.

Returns readings as plain values. Knows nothing of PostgreSQL.
"""
