"""History: past runs, found again, replayed, tagged and removed."""
