-- An order of 5 to 15 items, its lines and the stock they leave; one in a hundred is rolled back.
\set w random(1, :scale)
\set d random(1, 10)
\set c random(1, 300)
\set lines random(5, 15)
\set first random(1, 10000)
\set mistaken random(1, 100)
BEGIN;
SELECT w_tax FROM warehouse WHERE w_id = :w;
SELECT c_discount, c_last FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w AND d_id = :d RETURNING d_next_o_id - 1 AS o \gset
INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt) VALUES (:w, :d, :o, :c, now(), :lines);
INSERT INTO new_orders (no_w_id, no_d_id, no_o_id) VALUES (:w, :d, :o);
SELECT s_i_id, s_quantity FROM stock
  WHERE s_w_id = :w AND s_i_id IN (SELECT 1 + (:first + n * 7919) % 10000 FROM generate_series(1, :lines) n)
  ORDER BY s_i_id FOR UPDATE;
UPDATE stock SET s_quantity = s_quantity - 5 + CASE WHEN s_quantity < 15 THEN 91 ELSE 0 END, s_ytd = s_ytd + 5,
    s_order_cnt = s_order_cnt + 1
  WHERE s_w_id = :w AND s_i_id IN (SELECT 1 + (:first + n * 7919) % 10000 FROM generate_series(1, :lines) n);
INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_quantity, ol_amount)
  SELECT :w, :d, :o, n, i_id, 5, 5 * i_price
  FROM generate_series(1, :lines) n JOIN item ON i_id = 1 + (:first + n * 7919) % 10000;
\if :mistaken = 1
ROLLBACK;
\else
COMMIT;
\endif
