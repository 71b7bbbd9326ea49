SELECT '' AS object, extract(epoch FROM stats_reset) AS stats_reset,
       checkpoints_timed, checkpoints_req, checkpoint_write_time AS checkpoint_write_ms,
       checkpoint_sync_time AS checkpoint_sync_ms, buffers_checkpoint, buffers_clean, maxwritten_clean,
       buffers_backend, buffers_backend_fsync, buffers_alloc
FROM pg_stat_bgwriter
