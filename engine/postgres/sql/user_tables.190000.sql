SELECT relname AS object, extract(epoch FROM t.stats_reset) AS stats_reset,
       t.seq_scan, t.seq_tup_read, t.idx_scan, t.idx_tup_fetch,
       t.n_tup_ins, t.n_tup_upd, t.n_tup_del, t.n_tup_hot_upd, t.n_tup_newpage_upd,
       t.n_live_tup AS n_live_tup_now, t.n_dead_tup AS n_dead_tup_now,
       t.n_mod_since_analyze AS n_mod_since_analyze_now, t.n_ins_since_vacuum AS n_ins_since_vacuum_now,
       t.vacuum_count, t.autovacuum_count, t.analyze_count, t.autoanalyze_count,
       t.total_vacuum_time AS vacuum_ms, t.total_autovacuum_time AS autovacuum_ms,
       t.total_analyze_time AS analyze_ms, t.total_autoanalyze_time AS autoanalyze_ms,
       io.heap_blks_read, io.heap_blks_hit, io.idx_blks_read, io.idx_blks_hit,
       io.toast_blks_read, io.toast_blks_hit, io.tidx_blks_read, io.tidx_blks_hit
FROM pg_stat_user_tables t JOIN pg_statio_user_tables io USING (relid, schemaname, relname)
WHERE schemaname = 'public'
