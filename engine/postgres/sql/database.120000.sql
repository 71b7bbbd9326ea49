SELECT '' AS object, extract(epoch FROM stats_reset) AS stats_reset, numbackends AS numbackends_now,
       xact_commit, xact_rollback, blks_read, blks_hit, tup_returned, tup_fetched,
       tup_inserted, tup_updated, tup_deleted, conflicts, temp_files, temp_bytes, deadlocks, checksum_failures,
       blk_read_time AS blk_read_ms, blk_write_time AS blk_write_ms
FROM pg_stat_database
WHERE datname = current_database()
