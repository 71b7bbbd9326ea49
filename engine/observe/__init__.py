"""Sampling of each second, stalls while they last, and their likeliest causes.

Provides a step's sampler. The stall detector and the ranking of causes are pure functions.
"""
