"""Flame graphs: the functions that ran on a CPU, for one build or as a difference of two."""
