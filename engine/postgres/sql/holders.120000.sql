-- The processes of $1 and their activity, in one line each; asked when a stall shows that somebody waits
-- for them.
SELECT pid,
       concat_ws(': ',
           coalesce(nullif(application_name, ''), backend_type),
           nullif(left(statement, 60) || repeat('...', (length(statement) > 60)::int), '')),
       concat_ws(', ',
           coalesce(nullif(application_name, ''), backend_type),
           coalesce(state, 'working')
               || coalesce(' for ' || round(extract(epoch FROM clock_timestamp() - state_change)::numeric, 1) || ' s', ''),
           'waits for ' || wait_event_type || ':' || wait_event,
           nullif(left(statement, 200) || repeat('...', (length(statement) > 200)::int), ''))
FROM pg_stat_activity, regexp_replace(query, '\s+', ' ', 'g') AS statement
WHERE pid = ANY ($1::int[])
