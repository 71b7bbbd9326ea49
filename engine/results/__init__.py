"""The values of a comparison: shown, written as JSON and read back.

Hands out frozen structs: comparison, ratio, sweep, attribution. Knows no formula, and nothing that would make them.
"""
