"""Many runs in a row: trends, and the search for a commit."""
