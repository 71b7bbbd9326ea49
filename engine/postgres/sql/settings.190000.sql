-- As settings.120000.sql, and always the clock that measured times are from: 19 takes a fast one where it finds one, which
-- makes track_io_timing and EXPLAIN ANALYZE cheaper. Its value says which, such as `auto (tsc)`.
SELECT name,
       CASE source WHEN 'session' THEN reset_val || coalesce(' x ' || unit, '') ELSE current_setting(name) END,
       CASE source WHEN 'session' THEN 'configuration file' ELSE source END
FROM pg_settings
WHERE (reset_val IS DISTINCT FROM boot_val OR name = 'timing_clock_source') AND source <> 'client'
  AND name NOT IN ('application_name', 'client_encoding', 'timezone_abbreviations', 'max_stack_depth',
                   'transaction_isolation', 'transaction_read_only', 'transaction_deferrable',
                   'config_file', 'data_directory', 'hba_file', 'hosts_file', 'ident_file', 'external_pid_file')
ORDER BY name
