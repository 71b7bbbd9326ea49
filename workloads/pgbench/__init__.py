"""pgbench as a workload: its built-in scripts, or scripts of the user's own."""
