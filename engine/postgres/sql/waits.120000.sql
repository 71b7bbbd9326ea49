-- Activity of the processes of connections, counted by role. Asked up to ten times a second, so it is to be cheap.
-- $1 are their pids, $2 a number for the role of each. With 200 connections this takes 0.5 to 0.7 ms of CPU, of which
-- pg_stat_get_activity, which copies what all backends tell of themselves, takes most; an answer of a row for each pid
-- would cost the engine five times as much. The pids, and for how many us each has done it, come only for those that
-- have done it for longer than $3 us: none where that is 0.
SELECT role, event, state, count(*), (array_agg(pid) FILTER (WHERE is_old))::text,
       (array_agg((date_part('epoch', clock_timestamp() - since) * 1000000)::bigint) FILTER (WHERE is_old))::text
FROM (
    SELECT role, activity.pid, coalesce(wait_event_type || ':' || wait_event, '') AS event, state,
           greatest(query_start, state_change) AS since,
           $3::bigint > 0
               AND greatest(query_start, state_change) < clock_timestamp() - $3::bigint * interval '1 us' AS is_old
    FROM pg_stat_get_activity(NULL) AS activity
    JOIN unnest($1::int[], $2::int[]) AS connection (pid, role) ON connection.pid = activity.pid
) AS backend
GROUP BY role, event, state
