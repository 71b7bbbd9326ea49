"""Checks of whether cells can be compared, and in what they differ."""
