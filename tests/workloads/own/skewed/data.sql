-- Twelve tables of a shop in a star of stars, generated; values are skewed, so that estimates of joins are wrong.
CREATE TABLE countries (id int PRIMARY KEY, name text, zone int);
CREATE TABLE cities (id int PRIMARY KEY, country_id int REFERENCES countries, name text);
CREATE TABLE people (id int PRIMARY KEY, city_id int REFERENCES cities, age int, kind text);
CREATE TABLE makers (id int PRIMARY KEY, country_id int REFERENCES countries, name text);
CREATE TABLE categories (id int PRIMARY KEY, parent_id int, name text);
CREATE TABLE items (id int PRIMARY KEY, maker_id int REFERENCES makers, category_id int REFERENCES categories, price int);
CREATE TABLE stores (id int PRIMARY KEY, city_id int REFERENCES cities, size int);
CREATE TABLE stock (store_id int REFERENCES stores, item_id int REFERENCES items, amount int, PRIMARY KEY (store_id, item_id));
CREATE TABLE sales (id int PRIMARY KEY, person_id int REFERENCES people, store_id int REFERENCES stores, sold date);
CREATE TABLE sale_lines (sale_id int REFERENCES sales, item_id int REFERENCES items, amount int, price int);
CREATE TABLE reviews (person_id int REFERENCES people, item_id int REFERENCES items, stars int, written date);
CREATE TABLE returns (sale_id int REFERENCES sales, item_id int REFERENCES items, reason text);
-- The n-th of N values drawn so that small ones are frequent: N * u^3.
CREATE FUNCTION skewed(n int, most int, salt int) RETURNS int IMMUTABLE LANGUAGE sql AS
  $$ SELECT 1 + floor(most * pow((hashint4(n # salt)::bigint + 2147483648) / 4294967296.0, 3))::int $$;
INSERT INTO countries SELECT n, 'country ' || n, n % 5 FROM generate_series(1, 30) n;
INSERT INTO cities SELECT n, skewed(n, 30, 1), 'city ' || n FROM generate_series(1, 200) n;
INSERT INTO people SELECT n, skewed(n, 200, 2), 18 + n % 70, 'kind ' || skewed(n, 8, 3) FROM generate_series(1, 2000) n;
INSERT INTO makers SELECT n, skewed(n, 30, 4), 'maker ' || n FROM generate_series(1, 60) n;
INSERT INTO categories SELECT n, CASE WHEN n > 5 THEN 1 + n % 5 END, 'category ' || n FROM generate_series(1, 40) n;
INSERT INTO items SELECT n, skewed(n, 60, 5), skewed(n, 40, 6), 1 + skewed(n, 500, 7) FROM generate_series(1, 1000) n;
INSERT INTO stores SELECT n, skewed(n, 200, 8), skewed(n, 100, 9) FROM generate_series(1, 40) n;
INSERT INTO stock SELECT s, i, skewed(s * i, 50, 10) FROM generate_series(1, 40) s, generate_series(1, 1000, 7) i;
INSERT INTO sales SELECT n, skewed(n, 2000, 11), skewed(n, 40, 12), date '2024-01-01' + skewed(n, 700, 13)
  FROM generate_series(1, 6000) n;
INSERT INTO sale_lines SELECT s, skewed(s * 4 + l, 1000, 14), 1 + l, skewed(s + l, 500, 15)
  FROM generate_series(1, 6000) s, generate_series(0, 2) l;
INSERT INTO reviews SELECT skewed(n, 2000, 16), skewed(n, 1000, 17), 1 + n % 5, date '2024-01-01' + n % 700
  FROM generate_series(1, 3000) n;
INSERT INTO returns SELECT skewed(n, 6000, 18), skewed(n, 1000, 19), 'reason ' || skewed(n, 6, 20)
  FROM generate_series(1, 500) n;
CREATE INDEX ON sale_lines (item_id);
CREATE INDEX ON sale_lines (sale_id);
CREATE INDEX ON sales (person_id);
CREATE INDEX ON people (city_id);
CREATE INDEX ON reviews (item_id);
