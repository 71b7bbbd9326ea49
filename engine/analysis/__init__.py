"""Analysis of finished cells: metrics, pairs, intervals, verdicts, and whether cells are comparable.

Hands out `comparison.compare`. Reads journals; the only package that imports scipy, and late.
"""
