-- Waits of every client backend, vacuum at work, and how far the WAL is. $1 is the database's oid.
-- pg_stat_get_activity is what pg_stat_activity reads; without its joins the question costs half.
-- Backends that do the same are one row, as there may be hundreds: their pids, and how many us ago each began what it does.
-- Backends that began it less than $2 microseconds ago are left out: nearly all, of hundreds.
-- A role outside pg_monitor sees that a vacuum runs, and no more.
-- pg_blocking_pids stops the lock manager for a moment, so it is asked only for those that wait for a lock.
SELECT 'wait', event, state, blocked_by::text, array_agg(pid)::text, array_agg(age_us)::text
FROM (
    SELECT pid, coalesce(wait_event_type || ':' || wait_event, '') AS event, state,
           CASE WHEN wait_event_type = 'Lock' THEN pg_blocking_pids(pid) END AS blocked_by,
           coalesce((date_part('epoch', clock_timestamp() - greatest(query_start, state_change)) * 1000000)::bigint, 0)
               AS age_us
    FROM pg_stat_get_activity(NULL)
    WHERE datid = $1::oid AND backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND ($2::bigint = 0 OR greatest(query_start, state_change) < clock_timestamp() - $2::bigint * interval '1 us')
) AS backend
GROUP BY event, state, blocked_by
UNION ALL
SELECT 'vacuum', relid::regclass::text, phase, NULL, ARRAY[pid]::text,
       ARRAY[coalesce(heap_blks_scanned, 0), coalesce(heap_blks_total, 0)]::text
FROM pg_stat_progress_vacuum
WHERE datid = $1::oid
UNION ALL
SELECT 'wal', (CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() - '0/0'::pg_lsn END)::text,
       NULL, NULL, NULL, NULL
