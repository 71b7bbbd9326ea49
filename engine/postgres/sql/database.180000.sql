SELECT '' AS object, extract(epoch FROM stats_reset) AS stats_reset, numbackends AS numbackends_now,
       xact_commit, xact_rollback, blks_read, blks_hit, tup_returned, tup_fetched,
       tup_inserted, tup_updated, tup_deleted, conflicts, temp_files, temp_bytes, deadlocks, checksum_failures,
       blk_read_time AS blk_read_ms, blk_write_time AS blk_write_ms,
       session_time AS session_ms, active_time AS active_ms, idle_in_transaction_time AS idle_in_transaction_ms,
       sessions, sessions_abandoned, sessions_fatal, sessions_killed,
       parallel_workers_to_launch, parallel_workers_launched
FROM pg_stat_database
WHERE datname = current_database()
