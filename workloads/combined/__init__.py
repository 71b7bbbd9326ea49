"""A workload with background workloads: several loads on one server at once."""
