"""Analysis of finished cells: figures, pairs, intervals, verdicts, and whether cells are comparable.

Hands out `answer.compare.compare`. Reads journals; the only package that imports scipy, and late. Its rooms, each of
which imports those above it: `statistics`, `cells`, `checks`, `ratios`; `series` and `causes`; `answer`.
"""
