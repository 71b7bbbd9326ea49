"""Live: a run as it is measured, or a recorded cell that is replayed; and the detail of a stall."""
