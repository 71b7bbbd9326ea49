-- Main fork only, as the Insert Benchmark reports; a TOAST table and its index go by their owner's name.
SELECT relname, CASE relkind WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' ELSE 'heap' END, pg_relation_size(oid)
FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'm', 'i', 'S')
UNION ALL
SELECT owner.relname, 'toast', pg_relation_size(owner.reltoastrelid) + pg_indexes_size(owner.reltoastrelid)
FROM pg_class owner
WHERE owner.relnamespace = 'public'::regnamespace AND owner.reltoastrelid <> 0
ORDER BY 1, 2
