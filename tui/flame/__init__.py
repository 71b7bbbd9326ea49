"""Flame graphs: where processes spent their time, for one build or as a difference of two."""
