-- What a whole server has counted, see totals.120000.sql; 18 counts completed checkpoints.
SELECT sum(xact_commit), sum(xact_rollback), sum(tup_inserted), sum(tup_updated), sum(tup_deleted),
       sum(blks_hit), sum(blks_read), sum(temp_bytes), sum(deadlocks),
       min(num_timed), min(num_requested), min(num_done), min(write_time)::bigint, min(sync_time)::bigint,
       min(buffers_written)
FROM pg_stat_database, pg_stat_checkpointer
