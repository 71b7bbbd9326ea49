-- Version and state of an external server, and the rights of its role there. Role pg_checkpoint exists from 15 on.
SELECT current_setting('server_version') AS version,
       version() AS built,
       extract(epoch FROM pg_postmaster_start_time())::text AS started,
       pg_backend_pid()::text AS backend,
       pg_is_in_recovery() AS standby,
       current_setting('transaction_read_only') = 'on' AS read_only,
       rolsuper OR rolcreatedb AS may_create,
       rolsuper OR coalesce(pg_has_role(to_regrole('pg_checkpoint'), 'USAGE'), false) AS may_checkpoint,
       rolsuper OR pg_has_role('pg_monitor', 'USAGE') AS may_see_all,
       least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
                 - coalesce(current_setting('reserved_connections', true)::int, 0)
                 - (SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database)::int,
             CASE WHEN rolconnlimit >= 0 THEN rolconnlimit END) AS free_connections,
       current_setting('max_connections')::int AS max_connections
FROM pg_roles
WHERE rolname = current_user
