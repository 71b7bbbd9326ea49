-- Evict the relations of the database, but for its catalogs, from shared buffers; how many buffers were in use.
SELECT count(*) FILTER (WHERE NOT pg_buffercache_evict(b.bufferid))
FROM pg_buffercache b
JOIN pg_class c ON b.relfilenode = pg_relation_filenode(c.oid)
WHERE b.reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
