"""TPC-C-like, not TPC-C: five transactions of our own on an order-entry schema, as pgbench scripts."""
