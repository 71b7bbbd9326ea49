-- 18 counts bytes itself, since one read may be of many pages.
SELECT backend_type || '/' || object || '/' || context AS object, extract(epoch FROM stats_reset) AS stats_reset,
       reads, read_bytes, read_time AS read_ms,
       writes, write_bytes, write_time AS write_ms,
       writebacks, writeback_time AS writeback_ms,
       extends, extend_bytes, extend_time AS extend_ms,
       hits, evictions, reuses, fsyncs, fsync_time AS fsync_ms
FROM pg_stat_io
