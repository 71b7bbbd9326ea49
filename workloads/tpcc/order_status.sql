-- A customer's last order and its lines.
\set w random(1, :scale)
\set d random(1, 10)
\set c random(1, 300)
BEGIN;
SELECT c_balance, c_last FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
SELECT ol_i_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
  WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = (
    SELECT o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c ORDER BY o_id DESC LIMIT 1);
COMMIT;
