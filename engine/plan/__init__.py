"""The way from a request to a manifest: names, builds, order, size and time of the cells. Measures nothing."""
