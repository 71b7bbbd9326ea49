-- What a whole server has counted: transactions, rows, blocks, temporary files and deadlocks of all databases, then its
-- checkpoints: timed, requested, completed, time spent writing and syncing, buffers written.
SELECT sum(xact_commit), sum(xact_rollback), sum(tup_inserted), sum(tup_updated), sum(tup_deleted),
       sum(blks_hit), sum(blks_read), sum(temp_bytes), sum(deadlocks),
       min(checkpoints_timed), min(checkpoints_req), 0, min(checkpoint_write_time)::bigint,
       min(checkpoint_sync_time)::bigint, min(buffers_checkpoint)
FROM pg_stat_database, pg_stat_bgwriter
