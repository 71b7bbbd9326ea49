SELECT '' AS object, extract(epoch FROM stats_reset) AS stats_reset,
       wal_records, wal_fpi, wal_bytes, wal_buffers_full, wal_write, wal_sync,
       wal_write_time AS wal_write_ms, wal_sync_time AS wal_sync_ms
FROM pg_stat_wal
