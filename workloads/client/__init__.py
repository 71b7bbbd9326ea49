"""Client processes, and the measured path: counter page, gate, launcher, connection, histogram, limiter, seeds.

Knows no workload.
"""
