-- The server's settings whose value is not the built-in one. reset_val is the server's value also where this session
-- has set its own (source 'session'). Presets that the server tunes are included, such as wal_buffers;
-- what this connection brought with it (source 'client'), and the cluster's paths, are not.
SELECT name,
       CASE source WHEN 'session' THEN reset_val || coalesce(' x ' || unit, '') ELSE current_setting(name) END,
       CASE source WHEN 'session' THEN 'configuration file' ELSE source END
FROM pg_settings
WHERE reset_val IS DISTINCT FROM boot_val AND source <> 'client'
  AND name NOT IN ('application_name', 'client_encoding', 'timezone_abbreviations', 'max_stack_depth',
                   'transaction_isolation', 'transaction_read_only', 'transaction_deferrable',
                   'config_file', 'data_directory', 'hba_file', 'ident_file', 'external_pid_file')
ORDER BY name
