"""Comparisons and runs as text: tables for the terminal, Markdown, CSV, JSON, flame graphs, plain files.

Hands out what is printed or written. Reads journals only, and knows nothing of how a run is made.
"""
