BEGIN;
TRUNCATE loaded;
COPY loaded FROM 'copy.csv' WITH (FORMAT csv);
END;
