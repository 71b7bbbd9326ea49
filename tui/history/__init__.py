"""History: past runs, to find, replay, tag and remove."""
