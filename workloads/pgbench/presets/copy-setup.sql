-- The server itself writes the file into its data folder: the same rows in each version. COPY TO takes no relative path.
CREATE TABLE loaded (id integer, number integer, label text, made timestamptz);
DO $$ BEGIN
EXECUTE format(
    'COPY (SELECT i, mod(i * 7919::bigint, 2147483647), md5(i::text), timestamptz ''2020-01-01 UTC'' + i * interval ''1 s'''
    ' FROM generate_series(1, :rows) i) TO %L WITH (FORMAT csv)', current_setting('data_directory') || '/copy.csv');
END $$;
CHECKPOINT;
