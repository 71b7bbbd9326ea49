-- The journal's schema, version 1.0. The only place where it is described.
--
-- Times (*_ns) are CLOCK_MONOTONIC nanoseconds of the session that wrote them; `session` holds the
-- wall clock of one such instant, so that wall = wall_ns + (t - monotonic_ns). A resumed run has one
-- session for each time that it was started; a cell lies wholly within one session.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);  -- schema; manifest: a copy, for the views

CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    boot_id TEXT NOT NULL,
    monotonic_ns INTEGER NOT NULL,
    wall_ns INTEGER NOT NULL,              -- Unix time in ns at monotonic_ns
    pid INTEGER NOT NULL                   -- the engine
);

-- One row per attempt at a cell. A cell is finished when one of its attempts is.
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES session,
    cell TEXT NOT NULL,                    -- the cell's id in manifest.json
    state TEXT NOT NULL,                   -- running, finished, failed, interrupted
    started_ns INTEGER NOT NULL,
    ended_ns INTEGER,
    reason TEXT,                           -- why it failed or was interrupted
    origin TEXT NOT NULL DEFAULT '{}'      -- JSON: what held for this cell (environment, settings not applied)
);

CREATE TABLE setting (                     -- settings that differ from the server's defaults
    attempt_id INTEGER NOT NULL REFERENCES attempt,
    name TEXT NOT NULL, value TEXT NOT NULL, source TEXT NOT NULL
);

CREATE TABLE step (
    id INTEGER PRIMARY KEY,
    attempt_id INTEGER NOT NULL REFERENCES attempt,
    ordinal INTEGER NOT NULL,
    name TEXT NOT NULL,                    -- l.i0, l.x, ..., pause
    kind TEXT NOT NULL,                    -- load, index, write, pause, query
    state TEXT NOT NULL,                   -- running, finished, failed, interrupted
    started_ns INTEGER NOT NULL,
    ended_ns INTEGER,
    work INTEGER NOT NULL,                 -- what progress counts up to: rows inserted or indexed; 0 unknown
    plan TEXT NOT NULL,                    -- JSON: the step as planned; `primary_metric`: its role and unit; `vacuumed`:
                                           -- whether the workload vacuumed its tables before or in it
    totals TEXT                            -- JSON: engine.journal.totals.StepTotals, once it is finished
);

CREATE TABLE role (                        -- one connection of one step
    id INTEGER PRIMARY KEY,
    step_id INTEGER NOT NULL REFERENCES step,
    client INTEGER NOT NULL,               -- 1 for table pi1, ...
    name TEXT NOT NULL,                    -- insert, delete, query, index, …
    backend_pid INTEGER NOT NULL,
    client_pid INTEGER NOT NULL
);

-- One row per role and second. Counts are of this interval, not cumulative. Rows lie in order of time, so that
-- those of hundreds of connections are written side by side.
CREATE TABLE role_second (
    role_id INTEGER NOT NULL REFERENCES role,
    t_ns INTEGER NOT NULL,                 -- end of the interval
    dt_ns INTEGER NOT NULL,                -- its length, without the pauses of a server in slices
    statements INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    in_flight_ns INTEGER NOT NULL,         -- age of the statement in flight at t_ns, 0 when none
    max_us INTEGER NOT NULL,               -- longest service time that ended in the interval (bucket bound)
    service BLOB NOT NULL,                 -- workloads.client.histogram.pack
    response BLOB,                         -- the same from the intended start, rate-limited roles only
    backend_cpu_ns INTEGER, backend_runq_ns INTEGER, backend_switches INTEGER,
    backend_read_bytes INTEGER,
    backend_write_bytes INTEGER,           -- made dirty less those cancelled; can be negative
    client_cpu_ns INTEGER, client_runq_ns INTEGER, client_switches INTEGER,
    wait_event TEXT,                       -- type:event of pg_stat_activity at t_ns
    PRIMARY KEY (t_ns, role_id)
) WITHOUT ROWID;

-- Outcomes of a role's transactions in an interval, where not all ended in time at the first try.
CREATE TABLE role_outcome (
    role_id INTEGER NOT NULL REFERENCES role,
    t_ns INTEGER NOT NULL,                 -- end of the interval, as in role_second
    data TEXT NOT NULL,                    -- JSON: counts by the names of workloads.client.counter_page.OUTCOMES
    PRIMARY KEY (role_id, t_ns)
) WITHOUT ROWID;

-- Waits of the server processes of a role's connections, as seen at `samples` moments of an interval,
-- chosen by chance: ten a second, fewer where there are many connections (engine.observe.wait_samples). Of a server
-- in slices they lie in its own turns.
CREATE TABLE wait_second (
    step_id INTEGER NOT NULL REFERENCES step,
    role TEXT NOT NULL,
    t_ns INTEGER NOT NULL,                 -- end of the interval, as in role_second
    dt_ns INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    data TEXT NOT NULL,                    -- JSON: how many processes were seen, by type:event of pg_stat_activity; by ''
                                           -- those that waited for nothing
    PRIMARY KEY (step_id, role, t_ns)
) WITHOUT ROWID;

-- One row per source and second; data is JSON, differences over the interval unless named *_now.
-- Sources: server (all server processes but the monitor's), process:<backend type>, wal (bytes that the server wrote,
-- as it says; since it was last asked), host, device, and the observers: engine, monitor (the engine's own connection).
CREATE TABLE sample (
    step_id INTEGER NOT NULL REFERENCES step,
    t_ns INTEGER NOT NULL,
    dt_ns INTEGER NOT NULL,
    source TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (step_id, t_ns, source)
) WITHOUT ROWID;

-- One row per event. An event that lasts is written when it begins (ended_ns NULL) and updated.
-- Kinds: checkpoint, autovacuum, autovacuum_cancelled, lock_wait, server_error (from the server's log),
-- stall, drift (the machine changed, or the settings of an external server),
-- clock_step (the wall clock was set), suspended (the machine was), gap (a tick that came late),
-- progress (what the engine waits for between steps), mark (a word of the user's: text),
-- plan (how many `repeats` there are to be, and why: text; after an interim analysis also `level` and the steps `unknown`;
-- in a run with such, after that many `pairs`, what the next takes, `pair_s`, and for each of its `steps`: state, width,
-- by_end, seconds: see engine.journal.outcome.StepPlan),
-- probe (what a probe has to say: probe, text), probe_gap (a time without its figures: probe, text).
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    attempt_id INTEGER REFERENCES attempt,
    step_id INTEGER REFERENCES step,
    kind TEXT NOT NULL,
    started_ns INTEGER NOT NULL,
    ended_ns INTEGER,
    role TEXT,                             -- a stall's role
    data TEXT NOT NULL                     -- JSON; for a stall see engine.observe.stalls.Stall, and its `snapshot`, where
                                           -- the backend hung when it began: engine.observe.stall_snapshot
);

-- One row per frame of a probe (about a second, on a beat of its own) and role that did something in it.
-- Roles: those of `role` (their server processes), client:ROLE (their clients), client (what started them), server (all
-- other server processes), monitor (that of the engine's own connection), observer (whatever else the engine started).
-- A frame that overlaps the step's begin or end is whole: its connections did nothing outside the step but connect.
CREATE TABLE probe_frame (
    step_id INTEGER NOT NULL REFERENCES step,
    t_ns INTEGER NOT NULL,                 -- end of the frame
    dt_ns INTEGER NOT NULL,
    probe TEXT NOT NULL,
    role TEXT NOT NULL,
    data TEXT NOT NULL,                    -- JSON: processes; the probe's fields (probes/table.py); histograms as pairs
                                           -- (power-of-two bucket of us, count); stacks: phases {phase: samples},
                                           -- functions {function that ran: samples}
    quality TEXT NOT NULL,                 -- JSON: what of probes.frames.Quality is not as it should be; attach; mode
                                           -- of a probe that is not there all the time (window, stalls);
                                           -- stacks: leaf_hz, samples of functions in a second of a CPU
    PRIMARY KEY (step_id, t_ns, probe, role)
) WITHOUT ROWID;

-- One row per slice of a step of interleaved cells: see engine.slices.conductor.Slice. `place` is the place in
-- the block's order, which all its servers share; times in it are those of the session, ops those that are counted.
CREATE TABLE slice (
    step_id INTEGER NOT NULL REFERENCES step,
    block INTEGER NOT NULL,
    place INTEGER NOT NULL,
    opened_ns INTEGER NOT NULL,
    counted_from_ns INTEGER NOT NULL,
    counted_ns INTEGER NOT NULL,
    ops INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    cpu_ns INTEGER NOT NULL,               -- of all server processes, over the whole slice
    cpu_ops INTEGER NOT NULL,              -- ops over the whole slice
    runq_ns INTEGER NOT NULL,
    spill_over_ns INTEGER NOT NULL,        -- CPU time used in others' slices since the one before
    stopped INTEGER NOT NULL,              -- background processes stopped after it
    switch_ns INTEGER NOT NULL,            -- from the end of its time until it was quiet and all was read
    imbalance_ns INTEGER NOT NULL,         -- some clients had made their rounds, others had not
    early_ns INTEGER NOT NULL,             -- the beginning of the counted part (0: not told apart)
    early_ops INTEGER NOT NULL,
    PRIMARY KEY (step_id, block, place)
) WITHOUT ROWID;

CREATE TABLE difference (                  -- pg_stat_* views over one step, last snapshot minus first
    step_id INTEGER NOT NULL REFERENCES step,
    view TEXT NOT NULL,                    -- bgwriter, checkpointer, wal, io, database, user_tables, user_indexes,
                                           -- planstats
    object TEXT NOT NULL,                  -- relation, index, query id, or backend type/object/context; '' when one row
    data TEXT NOT NULL                     -- JSON
);

CREATE TABLE size (                        -- after each step
    step_id INTEGER NOT NULL REFERENCES step,
    relation TEXT NOT NULL,
    kind TEXT NOT NULL,                    -- heap, index, toast, sequence
    bytes INTEGER NOT NULL
);

CREATE INDEX step_attempt ON step (attempt_id);
CREATE INDEX role_step ON role (step_id);
CREATE INDEX event_step ON event (step_id, started_ns);
