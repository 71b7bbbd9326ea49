"""The state of a run at a moment, for every view of it: live, replayed or summarised.

Returns immutable values read from the journal. Knows nothing of screens or a running engine.
"""
