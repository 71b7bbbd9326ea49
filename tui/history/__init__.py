"""History: what was run, found again, replayed, tagged and removed."""
