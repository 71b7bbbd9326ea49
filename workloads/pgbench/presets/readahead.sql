-- A sequential scan of the largest table.
SELECT count(filler) FROM pgbench_accounts;
