SELECT '' AS object, extract(epoch FROM stats_reset) AS stats_reset,
       num_timed, num_requested, num_done, write_time AS write_ms, sync_time AS sync_ms,
       buffers_written, slru_written
FROM pg_stat_checkpointer
