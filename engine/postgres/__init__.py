"""A PostgreSQL server: its settings, cluster, process, log and statistics views.

Hands out `Server`, a context manager over a fresh cluster. Knows no workload and writes no journal.
"""
