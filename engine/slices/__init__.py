"""Interleaved execution (duet benchmarking): servers side by side, driven in turns of about 50 ms.

Hands out the order of blocks, the conductor that stops and continues servers, and the record of a slice. Knows
neither cells nor plans.
"""
