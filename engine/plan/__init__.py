"""From a request to a manifest: names checked, builds realised, order, size and time of the cells. Measures nothing."""
