-- 18 evicts a relation at once, and returns records.
SELECT coalesce(sum(e.buffers_skipped), 0)
FROM pg_class c, LATERAL pg_buffercache_evict_relation(c.oid) e
WHERE c.relkind IN ('r', 'i', 'm', 't', 'S')
  AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
