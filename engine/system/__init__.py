"""Acting on the machine: the account that runs servers, its folders and processes, packages, ports, locks.

Knows nothing of PostgreSQL, and imports `core` alone of the engine.
"""
