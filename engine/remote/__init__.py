"""Clients on another host: reached over ssh, given the same programs, started, stopped and counted there.

Hands out the connection to that host. Knows nothing of the run that uses it.
"""
