"""Compare: what got slower, by how much, how sure, and what may be behind it."""
