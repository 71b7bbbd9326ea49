"""Compare: which steps got slower, by how much, how certainly, and possibly why."""
