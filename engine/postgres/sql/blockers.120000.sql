-- Who the processes of $1 wait for, and what those are doing, without the text of their statements. pg_blocking_pids
-- stops the lock manager for a moment, so it is asked only when a stall begins, and of few.
SELECT DISTINCT waiting.pid, held.pid,
       concat_ws(', ', coalesce(nullif(application_name, ''), backend_type), 'user ' || usename),
       concat_ws(', ',
           coalesce(nullif(application_name, ''), backend_type), 'user ' || usename,
           state || coalesce(' for ' || round(extract(epoch FROM clock_timestamp() - state_change)::numeric, 1) || ' s', ''),
           'waits for ' || wait_event_type || ':' || wait_event)
FROM unnest($1::int[]) AS waiting (pid), unnest(pg_blocking_pids(waiting.pid)) AS held (pid)
LEFT JOIN pg_stat_activity AS activity ON activity.pid = held.pid
