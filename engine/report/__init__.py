"""Comparisons and runs as text: tables for the terminal, Markdown, CSV, JSON, flame graphs, plain files.

Hands out texts, pages and files. Reads journals only, and knows nothing of how a run is made.
"""
