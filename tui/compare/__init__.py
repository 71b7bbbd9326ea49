"""Compare: what got slower, by how much, with what certainty, and possibly why."""
