-- Tables of the TPC-C-like workload, and their rows. {warehouses} and {seed} are put in; no random numbers are drawn, so
-- that all servers have the same rows. Smaller than the standard's: 300 customers and orders of a district, 10,000 items.
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name text NOT NULL, w_tax numeric(4,4) NOT NULL, w_ytd numeric(14,2) NOT NULL)
  WITH (fillfactor = 50);
CREATE TABLE district (
  d_w_id int, d_id int, d_name text NOT NULL, d_tax numeric(4,4) NOT NULL, d_ytd numeric(14,2) NOT NULL,
  d_next_o_id int NOT NULL, PRIMARY KEY (d_w_id, d_id)) WITH (fillfactor = 50);
CREATE TABLE customer (
  c_w_id int, c_d_id int, c_id int, c_last text NOT NULL, c_discount numeric(4,4) NOT NULL,
  c_balance numeric(14,2) NOT NULL, c_ytd_payment numeric(14,2) NOT NULL, c_payment_cnt int NOT NULL,
  c_delivery_cnt int NOT NULL, c_data text NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id));
CREATE TABLE history (
  h_c_w_id int NOT NULL, h_c_d_id int NOT NULL, h_c_id int NOT NULL, h_date timestamptz NOT NULL,
  h_amount numeric(8,2) NOT NULL);
CREATE TABLE item (i_id int PRIMARY KEY, i_name text NOT NULL, i_price numeric(6,2) NOT NULL, i_data text NOT NULL);
CREATE TABLE stock (
  s_w_id int, s_i_id int, s_quantity int NOT NULL, s_ytd bigint NOT NULL, s_order_cnt int NOT NULL, s_data text NOT NULL,
  PRIMARY KEY (s_w_id, s_i_id));
CREATE TABLE orders (
  o_w_id int, o_d_id int, o_id int, o_c_id int NOT NULL, o_entry_d timestamptz NOT NULL, o_carrier_id int,
  o_ol_cnt int NOT NULL, PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE TABLE new_orders (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE order_line (
  ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int NOT NULL, ol_quantity int NOT NULL,
  ol_amount numeric(8,2) NOT NULL, ol_delivery_d timestamptz, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
INSERT INTO warehouse SELECT w, 'warehouse ' || w, (w * 7 + {seed}) % 20 / 100.0, 300000 FROM generate_series(1, {warehouses}) w;
INSERT INTO district SELECT w, d, 'district ' || d, (w * 10 + d + {seed}) % 20 / 100.0, 30000, 301
  FROM generate_series(1, {warehouses}) w, generate_series(1, 10) d;
INSERT INTO customer
  SELECT w, d, c, md5((c + {seed})::text), (c * 31 + {seed}) % 50 / 100.0, 0, 10, 1, 0, repeat(md5((w * 3000 + d * 300 + c)::text), 8)
  FROM generate_series(1, {warehouses}) w, generate_series(1, 10) d, generate_series(1, 300) c;
INSERT INTO item SELECT i, md5((i + {seed})::text), 1 + (i * 7919 + {seed}) % 9900 / 100.0, md5(i::text)
  FROM generate_series(1, 10000) i;
INSERT INTO stock SELECT w, i, 10 + (i * 7919 + w + {seed}) % 91, 0, 0, md5((w * 10000 + i)::text) || md5(i::text)
  FROM generate_series(1, {warehouses}) w, generate_series(1, 10000) i;
INSERT INTO orders
  SELECT w, d, o, 1 + (o * 7919 + d) % 300, '2026-01-01', CASE WHEN o <= 210 THEN 1 + o % 10 END, 5 + (o * 13 + d + {seed}) % 11
  FROM generate_series(1, {warehouses}) w, generate_series(1, 10) d, generate_series(1, 300) o;
INSERT INTO new_orders SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_carrier_id IS NULL;
INSERT INTO order_line
  SELECT o_w_id, o_d_id, o_id, n, 1 + (o_id * 31 + n * 7919 + {seed}) % 10000, 5, 0, CASE WHEN o_carrier_id IS NOT NULL THEN o_entry_d END
  FROM orders, generate_series(1, o_ol_cnt) n;
CREATE INDEX customer_last ON customer (c_w_id, c_d_id, c_last);
CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
