"""Flame graphs: what processes did while they were on a CPU, of one build or of two against each other."""
