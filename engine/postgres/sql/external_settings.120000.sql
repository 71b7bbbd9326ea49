-- As settings.120000.sql, of an external server, as far as the role may see them. Settings that may hold a secret are
-- left out (connection strings, commands, settings that no extension has declared), and those that only say where
-- files or logs are.
SELECT name,
       CASE source WHEN 'session' THEN reset_val || coalesce(' x ' || unit, '') ELSE current_setting(name) END AS value,
       CASE source WHEN 'session' THEN 'configuration file' ELSE source END AS source
FROM pg_settings
WHERE reset_val IS DISTINCT FROM boot_val AND source <> 'client' AND short_desc IS NOT NULL
  AND name !~ 'conninfo|command|secret|passphrase|token|salt|_(file|files|dir|directory|directories|addresses)$'
  AND name NOT IN ('application_name', 'client_encoding', 'timezone_abbreviations', 'max_stack_depth', 'port',
                   'transaction_isolation', 'transaction_read_only', 'transaction_deferrable', 'cluster_name',
                   'lc_collate', 'lc_ctype', 'server_encoding', 'shared_memory_size',
                   'shared_memory_size_in_huge_pages', 'log_filename', 'log_line_prefix', 'event_source', 'bonjour_name', 'syslog_ident')
UNION ALL
-- The encoding and locale of databases: template0's, from which each cell's is made.
SELECT 'database', concat_ws(' ', pg_encoding_to_char(encoding), to_jsonb(d) ->> 'datlocprovider', datcollate, datctype,
                             coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale')), 'template0'
FROM pg_database d
WHERE datname = 'template0'
ORDER BY 1
