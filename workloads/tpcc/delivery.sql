-- The oldest order of each district of a warehouse is delivered, and its customer charged.
\set w random(1, :scale)
\set carrier random(1, 10)
BEGIN;
WITH gone AS (
  DELETE FROM new_orders USING (
      SELECT no_d_id AS d, min(no_o_id) AS o FROM new_orders WHERE no_w_id = :w GROUP BY no_d_id) oldest
    WHERE no_w_id = :w AND no_d_id = d AND no_o_id = o RETURNING no_d_id, no_o_id),
carried AS (
  UPDATE orders SET o_carrier_id = :carrier FROM gone
    WHERE o_w_id = :w AND o_d_id = no_d_id AND o_id = no_o_id RETURNING o_d_id, o_id, o_c_id),
delivered AS (
  UPDATE order_line SET ol_delivery_d = now() FROM gone
    WHERE ol_w_id = :w AND ol_d_id = no_d_id AND ol_o_id = no_o_id RETURNING ol_d_id, ol_amount)
UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
  FROM carried JOIN (SELECT ol_d_id, sum(ol_amount) AS amount FROM delivered GROUP BY ol_d_id) sums ON ol_d_id = o_d_id
  WHERE c_w_id = :w AND c_d_id = o_d_id AND c_id = o_c_id;
COMMIT;
