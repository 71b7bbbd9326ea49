"""The machine: its counters, settings and drift, the account that runs servers, free disk, locks, and `doctor`.

Returns readings as plain values. Knows nothing of PostgreSQL.
"""
