"""Values that everything shares, the one user-facing error, the clock, and how numbers are written.

Imports nothing of the other packages.
"""
