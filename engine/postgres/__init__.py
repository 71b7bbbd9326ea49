"""A PostgreSQL server: its build, settings, cluster, processes, log and statistics views.

Hands out `Server`, a context manager over a fresh cluster. Knows no workload and writes no journal.
"""
