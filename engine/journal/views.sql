-- Views of the journal for SQL: names instead of ids, and a unit in the name of whatever has one. `cells` are all that
-- were planned; all else but `events` is of cells that finished, as in `bench compare`: `alone` are those in slices of
-- whose repeat another did not. t_s is since the step began.
-- DuckDB runs the text of a view with its own parser: only what it and SQLite (from 3.25 on) read alike is used.

CREATE VIEW cells AS                       -- each with its attempt that counts: the last that finished, else the last
WITH planned AS (
    SELECT trim(json_extract(value, '$.id'), '"') AS cell, trim(json_extract(value, '$.subject.build'), '"') AS build,
        trim(json_extract(value, '$.subject.config'), '"') AS config,
        trim(json_extract(value, '$.subject.kernel'), '"') AS kernel,
        trim(json_extract(value, '$.subject.control'), '"') AS control,
        CAST(json_extract(value, '$.repeat') AS BIGINT) AS repeat
    FROM json_each((SELECT value FROM meta WHERE key = 'manifest'), '$.cells')
), counted AS (
    SELECT cell, coalesce(max(CASE WHEN state = 'finished' THEN id END), max(id)) AS id FROM attempt GROUP BY cell
), sizes AS (
    SELECT repeat, count(*) AS cells FROM planned GROUP BY repeat
), together AS (                           -- finished in one start of the engine
    SELECT planned.repeat FROM planned JOIN sizes ON sizes.repeat = planned.repeat
    JOIN attempt ON attempt.cell = planned.cell AND attempt.state = 'finished'
    GROUP BY planned.repeat, attempt.session_id, sizes.cells HAVING count(DISTINCT attempt.cell) = sizes.cells
), interleaved AS (
    SELECT trim(json_extract(value, '$.interleave'), '"') AS how FROM meta WHERE key = 'manifest'
)
SELECT planned.*,
    CASE WHEN attempt.state = 'finished' AND (SELECT how FROM interleaved) = 'slices'
              AND planned.repeat NOT IN (SELECT repeat FROM together)
         THEN 'alone' ELSE coalesce(attempt.state, 'planned') END AS state, attempt.reason, attempt.id AS attempt_id
FROM planned LEFT JOIN counted ON counted.cell = planned.cell LEFT JOIN attempt ON attempt.id = counted.id;

CREATE VIEW finished_steps AS              -- with which other views join the tables
SELECT cells.cell, step.name AS step, step.kind, step.id AS step_id, step.started_ns, step.totals
FROM cells JOIN step ON step.attempt_id = cells.attempt_id
WHERE cells.state = 'finished' AND step.totals IS NOT NULL;

CREATE VIEW roles AS
SELECT cell, step, each.key AS role, rtrim(each.key, '0123456789') AS role_kind,
    CAST(json_extract(each.value, '$.connections') AS BIGINT) AS connections,
    CAST(json_extract(each.value, '$.statements') AS BIGINT) AS statements,
    CAST(json_extract(each.value, '$.rows') AS BIGINT) AS rows,
    CAST(json_extract(each.value, '$.service_ns') AS BIGINT) / 1e9 AS service_s,
    CAST(json_extract(each.value, '$.backend_cpu_ns') AS BIGINT) / 1e9 AS backend_cpu_s,
    CAST(json_extract(each.value, '$.backend_runq_ns') AS BIGINT) / 1e9 AS backend_runq_s,
    CAST(json_extract(each.value, '$.backend_switches') AS BIGINT) AS backend_switches,
    CAST(json_extract(each.value, '$.client_cpu_ns') AS BIGINT) / 1e9 AS client_cpu_s, step_id
FROM finished_steps, json_each(totals, '$.roles') AS each;

CREATE VIEW steps AS                       -- operations, rate and time as in `bench compare`; the rest is of all server
WITH figures AS (                          -- processes and all clients
    SELECT *, trim(json_extract(totals, '$.primary_metric.role'), '"') AS judged,
        trim(json_extract(totals, '$.primary_metric.by'), '"') AS judged_by,
        trim(json_extract(totals, '$.primary_metric.unit'), '"') AS unit,
        CAST(json_extract(totals, '$.seconds') AS DOUBLE) AS seconds,
        CAST(json_extract(totals, '$.rows_indexed') AS BIGINT) AS rows_indexed
    FROM finished_steps
), progress AS (
    SELECT step_id, role_kind, sum(statements) AS statements, sum(service_s) AS service_s,
        sum(CASE WHEN role_kind IN ('insert', 'delete', 'index') THEN rows ELSE statements END) AS done
    FROM roles GROUP BY step_id, role_kind
), judged AS (
    SELECT figures.*, progress.service_s,
        CASE WHEN kind = 'index' THEN rows_indexed WHEN judged_by = 'time' THEN statements ELSE done END AS ops
    FROM figures LEFT JOIN progress ON progress.step_id = figures.step_id AND progress.role_kind = figures.judged
)
SELECT cell, step, kind, seconds, ops, unit,
    CASE WHEN judged_by = 'rate' AND seconds > 0 THEN ops / seconds END AS rate_per_s,
    CASE WHEN judged_by = 'time' AND ops > 0 THEN service_s / ops END AS time_s,
    CAST(json_extract(totals, '$.server_cpu_ns') AS BIGINT) / 1e9 AS server_cpu_s,
    CAST(json_extract(totals, '$.server_runq_ns') AS BIGINT) / 1e9 AS server_runq_s,
    CAST(json_extract(totals, '$.server_switches') AS BIGINT) AS server_switches,
    CAST(json_extract(totals, '$.client_cpu_ns') AS BIGINT) / 1e9 AS client_cpu_s,
    CAST(json_extract(totals, '$.server_read_bytes') AS BIGINT) AS server_read_bytes,
    CAST(json_extract(totals, '$.server_write_bytes') AS BIGINT) AS server_write_bytes,
    CAST(json_extract(totals, '$.wal_bytes') AS BIGINT) AS wal_bytes,
    CAST(json_extract(totals, '$.heap_bytes') AS BIGINT) AS heap_bytes,
    CAST(json_extract(totals, '$.index_bytes') AS BIGINT) AS index_bytes, step_id
FROM judged;

CREATE VIEW response_times_us AS           -- since a statement was sent, and under a rate limit since it was due
WITH pairs AS (                            -- of bucket and count, see workloads.client.histogram
    SELECT cell, step, role.key AS role, 'sent' AS since, pair.value AS pair
    FROM finished_steps, json_each(totals, '$.roles') AS role, json_each(role.value, '$.histogram') AS pair
    UNION ALL
    SELECT cell, step, role.key, 'due', pair.value
    FROM finished_steps, json_each(totals, '$.roles') AS role, json_each(role.value, '$.response') AS pair
), buckets AS (
    SELECT cell, step, role, since, CAST(json_extract(pair, '$[0]') AS BIGINT) AS bucket,
        CAST(json_extract(pair, '$[1]') AS BIGINT) AS count
    FROM pairs
), ranks AS (
    SELECT cell, step, role, since, sum(count) OVER (PARTITION BY cell, step, role, since ORDER BY bucket) AS seen,
        sum(count) OVER (PARTITION BY cell, step, role, since) AS statements,
        CASE WHEN bucket < 256 THEN bucket
             ELSE ((bucket - (((bucket >> 7) - 1) << 7) + 1) << ((bucket >> 7) - 1)) - 1 END AS us
    FROM buckets
)
SELECT cell, step, role, since, max(statements) AS statements,
    min(CASE WHEN seen >= 0.5 * statements THEN us END) AS p50,
    min(CASE WHEN seen >= 0.9 * statements THEN us END) AS p90,
    min(CASE WHEN seen >= 0.95 * statements THEN us END) AS p95,
    min(CASE WHEN seen >= 0.99 * statements THEN us END) AS p99,
    min(CASE WHEN seen >= 0.999 * statements THEN us END) AS p999, max(us) AS longest
FROM ranks GROUP BY cell, step, role, since;

CREATE VIEW seconds AS                     -- of each connection; t_s is without the pauses of a server in slices
SELECT cell, step, role.name AS role, role.client, role_id,
    sum(dt_ns) OVER (PARTITION BY role_id ORDER BY t_ns) / 1e9 AS t_s, dt_ns / 1e9 AS dt_s, statements, rows,
    statements * 1e9 / dt_ns AS statements_per_s, rows * 1e9 / dt_ns AS rows_per_s, in_flight_ns / 1e9 AS in_flight_s,
    max_us, backend_cpu_ns / 1e9 AS backend_cpu_s, backend_runq_ns / 1e9 AS backend_runq_s, backend_switches,
    backend_read_bytes, backend_write_bytes, client_cpu_ns / 1e9 AS client_cpu_s, wait_event
FROM finished_steps JOIN role ON role.step_id = finished_steps.step_id
JOIN role_second ON role_second.role_id = role.id;

CREATE VIEW waits AS                       -- how many server processes of a role were seen waiting; '': for nothing
SELECT cell, step, role, (t_ns - started_ns) / 1e9 AS t_s, dt_ns / 1e9 AS dt_s, samples, each.key AS wait_event,
    CAST(each.value AS BIGINT) AS seen
FROM finished_steps JOIN wait_second ON wait_second.step_id = finished_steps.step_id, json_each(data) AS each;

CREATE VIEW samples AS                     -- counters of processes, WAL, host and device, in the units of their names
SELECT cell, step, source, (t_ns - started_ns) / 1e9 AS t_s, dt_ns / 1e9 AS dt_s, each.key AS counter,
    CAST(each.value AS DOUBLE) AS value
FROM finished_steps JOIN sample ON sample.step_id = finished_steps.step_id, json_each(data) AS each
WHERE lower(each.type) NOT IN ('array', 'object', 'text', 'varchar', 'null');

CREATE VIEW transactions_ms AS             -- where they are few and timed one by one
SELECT cell, step, CAST(each.value AS DOUBLE) AS ms FROM finished_steps, json_each(totals, '$.report.times_ms') AS each;

CREATE VIEW counters AS                    -- perf events of a step
SELECT cell, step, role.key AS role, event.key AS event,
    CAST(json_extract(event.value, '$.count') AS DOUBLE) AS count,
    CAST(json_extract(event.value, '$.enabled_ns') AS BIGINT) / 1e9 AS enabled_s,
    CAST(json_extract(event.value, '$.running_ns') AS BIGINT) / 1e9 AS running_s
FROM finished_steps, json_each(totals, '$.counters') AS role, json_each(role.value) AS event;

CREATE VIEW probe_counts AS                -- of frames of about a second, in the units of their names
SELECT cell, step, probe, role, (t_ns - started_ns) / 1e9 AS t_s, dt_ns / 1e9 AS dt_s, figure.key AS figure,
    part.key AS part, CAST(part.value AS DOUBLE) AS value
FROM finished_steps JOIN probe_frame ON probe_frame.step_id = finished_steps.step_id, json_each(data) AS figure,
    json_each(CASE WHEN lower(figure.type) IN ('array', 'text', 'varchar') THEN '[]' ELSE figure.value END) AS part
WHERE lower(part.type) NOT IN ('array', 'object', 'text', 'varchar', 'null');

CREATE VIEW probe_histograms AS            -- `at_most` is a bucket's highest value, in the unit of its figure
SELECT cell, step, probe, role, (t_ns - started_ns) / 1e9 AS t_s, dt_ns / 1e9 AS dt_s, figure.key AS figure,
    (1 << CAST(json_extract(bucket.value, '$[0]') AS BIGINT)) - 1 AS at_most,
    CAST(json_extract(bucket.value, '$[1]') AS BIGINT) AS count
FROM finished_steps JOIN probe_frame ON probe_frame.step_id = finished_steps.step_id, json_each(data) AS figure,
    json_each(CASE WHEN lower(figure.type) = 'array' THEN figure.value ELSE '[]' END) AS bucket;

CREATE VIEW stalls AS                      -- with the likeliest cause
SELECT cell, step, event.role, CAST(json_extract(data, '$.client') AS BIGINT) AS client,
    (event.started_ns - finished_steps.started_ns) / 1e9 AS t_s,
    CAST(json_extract(data, '$.duration_s') AS DOUBLE) AS duration_s,
    CAST(json_extract(data, '$.missed_rows') AS DOUBLE) AS missed_rows,
    CAST(json_extract(data, '$.median_per_s') AS DOUBLE) AS median_per_s,
    trim(json_extract(data, '$.causes[0].name'), '"') AS cause,
    trim(json_extract(data, '$.causes[0].text'), '"') AS cause_text
FROM finished_steps JOIN event ON event.step_id = finished_steps.step_id WHERE event.kind = 'stall';

CREATE VIEW events AS                      -- of every attempt, since it began
SELECT attempt.cell, step.name AS step, event.kind, event.role, (event.started_ns - attempt.started_ns) / 1e9 AS t_s,
    (event.ended_ns - event.started_ns) / 1e9 AS duration_s, event.data
FROM event JOIN attempt ON attempt.id = event.attempt_id LEFT JOIN step ON step.id = event.step_id;

CREATE VIEW differences AS                 -- of pg_stat views over a step
SELECT cell, step, difference.view, object, each.key AS counter, CAST(each.value AS DOUBLE) AS value
FROM finished_steps JOIN difference ON difference.step_id = finished_steps.step_id, json_each(data) AS each
WHERE lower(each.type) NOT IN ('array', 'object', 'text', 'varchar', 'null');

CREATE VIEW sizes AS                       -- after a step
SELECT cell, step, relation, size.kind, bytes
FROM finished_steps JOIN size ON size.step_id = finished_steps.step_id;

CREATE VIEW settings AS                    -- those that differ from the server's defaults
SELECT cell, name, value, source
FROM cells JOIN setting ON setting.attempt_id = cells.attempt_id WHERE cells.state = 'finished';

CREATE VIEW slices AS                      -- the slices of a repeat's cells share blocks, places and clock
SELECT cell, step, block, place, opened_ns, counted_ns / 1e9 AS counted_s, ops, rows,
    ops * 1e9 / counted_ns AS ops_per_s, cpu_ns / 1e9 AS cpu_s, cpu_ops, runq_ns / 1e9 AS runq_s,
    spill_over_ns / 1e9 AS spill_over_s, stopped AS stopped_processes, switch_ns / 1e9 AS switch_s
FROM finished_steps JOIN slice ON slice.step_id = finished_steps.step_id;
