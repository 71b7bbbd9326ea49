"""The machine: its counters, settings and changes, the account that runs servers, free disk, locks, and `doctor`.

Hands out readings as plain values. Knows nothing of PostgreSQL.
"""
