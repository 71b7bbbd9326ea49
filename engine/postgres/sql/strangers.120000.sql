-- What a database holds that is neither the server's nor an extension's: schemas, relations, functions.
SELECT what
FROM (
    SELECT 'schema ' || nspname AS what, 'pg_namespace'::regclass AS class, oid AS object, oid AS schema
    FROM pg_namespace WHERE nspname <> 'public'
    UNION ALL
    SELECT 'relation ' || oid::regclass::text, 'pg_class'::regclass, oid, relnamespace FROM pg_class
    UNION ALL
    SELECT 'function ' || oid::regprocedure::text, 'pg_proc'::regclass, oid, pronamespace FROM pg_proc
) found
WHERE schema NOT IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^pg_' OR nspname = 'information_schema')
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = class AND d.objid = object AND d.deptype = 'e')
ORDER BY what
