-- Every setting that the server knows, and its built-in default, with its unit where it is the value in force.
SELECT name,
       CASE WHEN reset_val IS NOT DISTINCT FROM boot_val AND source <> 'session' THEN current_setting(name)
            ELSE concat_ws(' x ', boot_val, unit) END
FROM pg_settings
WHERE name NOT IN ('application_name', 'client_encoding', 'timezone_abbreviations', 'max_stack_depth',
                   'transaction_isolation', 'transaction_read_only', 'transaction_deferrable',
                   'config_file', 'data_directory', 'hba_file', 'ident_file', 'external_pid_file')
ORDER BY name
