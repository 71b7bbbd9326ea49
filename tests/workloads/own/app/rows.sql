INSERT INTO regions SELECT n, 'region ' || n FROM generate_series(1, 20) n;
INSERT INTO customers SELECT n, 1 + (n::bigint * n) % 20, 'customer ' || n, date '1950-01-01' + n % 18000
  FROM generate_series(1, 1000 * (SELECT n FROM scale)) n;
INSERT INTO suppliers SELECT n, 1 + n % 20, 'supplier ' || n FROM generate_series(1, 50) n;
INSERT INTO products SELECT n, 1 + n % 50, 'kind ' || n % 12, 1 + n % 997 FROM generate_series(1, 500) n;
INSERT INTO orders SELECT n, 1 + (n::bigint * n % 1000 * (n % 7) / 7)::int, date '2020-01-01' + n % 1500,
  CASE WHEN n % 50 = 0 THEN 'open' ELSE 'done' END FROM generate_series(1, 5000 * (SELECT n FROM scale)) n;
INSERT INTO order_lines SELECT o, l, 1 + (o * 7 + l * 13) % 500, 1 + l FROM generate_series(1, 5000 * (SELECT n FROM scale)) o,
  generate_series(1, 4) l;
INSERT INTO payments SELECT n, n, n % 1000, timestamptz '2020-01-01 00:00+00' + n * interval '1 hour'
  FROM generate_series(1, 4500 * (SELECT n FROM scale)) n;
INSERT INTO visits SELECT 1 + n % 1000, timestamptz '2020-01-01 00:00+00' + n * interval '1 minute', 'page ' || n % 40
  FROM generate_series(1, 10000 * (SELECT n FROM scale)) n;
CREATE INDEX orders_customer ON orders (customer_id);
CREATE INDEX order_lines_product ON order_lines (product_id);
CREATE INDEX payments_order ON payments (order_id);
CREATE INDEX visits_customer ON visits (customer_id, at);
