SELECT '' AS object, extract(epoch FROM stats_reset) AS stats_reset,
       wal_records, wal_fpi, wal_bytes, wal_fpi_bytes, wal_buffers_full
FROM pg_stat_wal
