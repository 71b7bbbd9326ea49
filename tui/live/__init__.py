"""Live: a run as it is measured, or the replay of a recorded cell; and the detail of a stall."""
