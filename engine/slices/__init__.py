"""Interleaved execution (duet benchmarking): servers side by side, one at work at a time, in slices of 20 to 50 ms.

Hands out `drive()`, which runs the conductor over servers, `Slice`, its record and the order of blocks. Knows neither
the cells nor the plan of a run.
"""
