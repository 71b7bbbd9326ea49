-- What the processes of connections wait for now, counted by role. Asked up to ten times a second, so it is to be cheap.
-- $1 are their pids, $2 a number for the role of each. With 200 connections this takes 0.5 to 0.7 ms of CPU, of which
-- pg_stat_get_activity, which copies what all backends tell of themselves, takes most; an answer of a row for each pid
-- would cost the engine five times as much.
SELECT role, coalesce(wait_event_type || ':' || wait_event, ''), count(*)
FROM pg_stat_get_activity(NULL) AS activity
JOIN unnest($1::int[], $2::int[]) AS connection (pid, role) ON connection.pid = activity.pid
GROUP BY 1, 2
