-- The schemas, relations and functions of a database that belong neither to the server nor to an extension.
SELECT what
FROM (
    SELECT 'schema ' || nspname AS what, 'pg_namespace'::regclass AS class, oid AS object, oid AS schema
    FROM pg_namespace WHERE nspname <> 'public'
    UNION ALL
    SELECT 'relation ' || oid::regclass::text, 'pg_class'::regclass, oid, relnamespace FROM pg_class
    UNION ALL
    SELECT 'function ' || oid::regprocedure::text, 'pg_proc'::regclass, oid, pronamespace FROM pg_proc
) contents
WHERE schema NOT IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^pg_' OR nspname = 'information_schema')
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = class AND d.objid = object AND d.deptype = 'e')
ORDER BY what
