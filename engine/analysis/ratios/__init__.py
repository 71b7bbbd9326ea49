"""The ratio of two subjects in a step, and its verdict."""
