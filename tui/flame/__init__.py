"""Flame graphs: what processes did while they were on a CPU, for one build or as a difference of two."""
