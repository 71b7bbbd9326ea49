-- Planning and execution so far, with rows, buffers and WAL, by statement, in this database; times in microseconds.
-- Needs shared_preload_libraries = pg_stat_statements and pg_stat_statements.track_planning = on.
-- The view's schema is in the search path, so that operators are named with theirs where types differ.
SELECT queryid AS object, NULL AS stats_reset,
       sum(plans)::bigint AS plans,
       round(sum(total_plan_time) OPERATOR(pg_catalog.*) 1000)::bigint AS plan_us,
       sum(calls)::bigint AS calls,
       round(sum(total_exec_time) OPERATOR(pg_catalog.*) 1000)::bigint AS exec_us,
       sum(rows)::bigint AS rows,
       sum(shared_blks_hit)::bigint AS hit,
       sum(shared_blks_read)::bigint AS read,
       sum(wal_bytes)::bigint AS wal_bytes
  FROM pg_stat_statements
 WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND queryid IS NOT NULL
 GROUP BY queryid
