-- The client connections of a whole server, counted by role ($1: application or user), state and wait; those that wait
-- for a lock; vacuums; and how far the WAL is (on a standby: replayed). Asked a few times a second of servers that others
-- use, so it is one question, and reads what all backends tell of themselves once.
-- Of others' connections, a role outside pg_monitor sees application, user and database, and NULL for all else.
WITH activity AS MATERIALIZED (
    SELECT pid, state, backend_type,
           backend_type = 'client backend' OR (backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)
               AS is_client,
           CASE $1 WHEN 'user' THEN pg_get_userbyid(usesysid)::text ELSE application_name END AS role,
           coalesce(wait_event_type || ':' || wait_event, '') AS event,
           coalesce((date_part('epoch', clock_timestamp() - greatest(query_start, state_change)) * 1000000)::bigint, 0)
               AS age_us
    FROM pg_stat_get_activity(NULL)
    WHERE pid <> pg_backend_pid()
)
SELECT 'role', role, state, event, count(*)::text, max(age_us)::text
FROM activity
WHERE is_client
GROUP BY role, state, event
UNION ALL
(SELECT 'lock', role, pid::text, event, '1', age_us::text
FROM activity
WHERE is_client AND event LIKE 'Lock:%'
ORDER BY age_us DESC
LIMIT 50)
UNION ALL
SELECT 'vacuum',
       CASE WHEN vacuum.datname = current_database() THEN relid::regclass::text ELSE vacuum.datname || ', oid ' || relid END,
       pid::text, phase || CASE backend_type WHEN 'autovacuum worker' THEN '' ELSE ' by hand' END,
       coalesce(heap_blks_scanned, 0)::text, coalesce(heap_blks_total, 0)::text
FROM pg_stat_progress_vacuum AS vacuum LEFT JOIN activity USING (pid)
UNION ALL
SELECT 'wal', NULL, NULL, NULL,
       (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
           - '0/0'::pg_lsn)::text, NULL
