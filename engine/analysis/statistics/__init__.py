"""Estimates, intervals, tests and figures, of numbers alone."""
