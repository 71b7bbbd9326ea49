"""Cells as their journals have them, those that are compared, and the level at which they are judged."""
