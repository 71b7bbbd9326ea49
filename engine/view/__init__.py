"""The state of a run at a moment, for all that show it: live, replayed, summed up.

Hands out immutable values read from the journal. Knows nothing of screens, nor of a running engine.
"""
