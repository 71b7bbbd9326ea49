"""Several loads on one server at once: the steps of one workload, with other loads beside those that are measured."""
