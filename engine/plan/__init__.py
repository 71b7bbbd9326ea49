"""From what a user asks for to a manifest: names checked, builds realised, order, size and time of the cells.

Hands out `prepare` and `estimate`. Starts nothing that measures.
"""
