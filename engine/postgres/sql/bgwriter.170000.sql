-- 17 moved the checkpoint columns to pg_stat_checkpointer and those of backends to pg_stat_io.
SELECT '' AS object, extract(epoch FROM stats_reset) AS stats_reset,
       buffers_clean, maxwritten_clean, buffers_alloc
FROM pg_stat_bgwriter
