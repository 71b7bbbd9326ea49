-- What every client backend waits for, what vacuum is at work on, and how far the WAL is. $1 is the database's oid.
-- pg_stat_get_activity is what pg_stat_activity reads; without its joins the question costs half.
-- $2 leaves out who began what it does less than so many microseconds ago: nearly all, of hundreds.
-- pg_blocking_pids stops the lock manager for a moment, so it is asked only for those that wait for a lock.
SELECT 'wait', pid, coalesce(wait_event_type || ':' || wait_event, ''), state,
       CASE WHEN wait_event_type = 'Lock' THEN array_to_string(pg_blocking_pids(pid), ',') END, NULL, NULL,
       (extract(epoch FROM clock_timestamp() - greatest(query_start, state_change)) * 1000000)::bigint
FROM pg_stat_get_activity(NULL)
WHERE datid = $1::oid AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND ($2::bigint = 0 OR greatest(query_start, state_change) < clock_timestamp() - $2::bigint * interval '1 us')
UNION ALL
SELECT 'vacuum', pid, relid::regclass::text, phase, NULL, heap_blks_scanned, heap_blks_total, NULL
FROM pg_stat_progress_vacuum
WHERE datid = $1::oid
UNION ALL
SELECT 'wal', NULL, (CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() - '0/0'::pg_lsn END)::text,
       NULL, NULL, NULL, NULL, NULL
