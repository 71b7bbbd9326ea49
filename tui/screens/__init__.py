"""What all screens share, and what lies over them for a moment."""
