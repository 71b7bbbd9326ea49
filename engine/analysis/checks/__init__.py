"""Checks of whether cells can be compared, and their differences."""
