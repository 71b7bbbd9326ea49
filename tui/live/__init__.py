"""Live: a run as it is measured, or a recorded cell played; and the detail of a stall."""
