SELECT indexrelname AS object, extract(epoch FROM i.stats_reset) AS stats_reset,
       i.idx_scan, i.idx_tup_read, i.idx_tup_fetch, io.idx_blks_read, io.idx_blks_hit
FROM pg_stat_user_indexes i
JOIN pg_statio_user_indexes io USING (relid, indexrelid, schemaname, relname, indexrelname)
WHERE schemaname = 'public'
