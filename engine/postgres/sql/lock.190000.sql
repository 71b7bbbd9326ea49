-- By type of lock: waits longer than deadlock_timeout, the time of those, and locks that did not fit into the fast path.
SELECT locktype AS object, extract(epoch FROM stats_reset) AS stats_reset,
       waits, wait_time AS wait_ms, fastpath_exceeded
FROM pg_stat_lock
