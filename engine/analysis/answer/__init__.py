"""All of it together: the comparison of runs, and its answer in sentences."""
