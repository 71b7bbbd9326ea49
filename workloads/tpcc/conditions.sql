-- Conditions that must hold after each run, whatever was rolled back: each query counts the rows for which it does not.
-- a warehouse's payments are those of its districts
SELECT count(*) FROM warehouse WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id);
-- a warehouse's payments are in the history
SELECT count(*) FROM warehouse
  WHERE w_ytd <> 300000 + (SELECT coalesce(sum(h_amount), 0) FROM history WHERE h_c_w_id = w_id);
-- a district's next order follows its last one
SELECT count(*) FROM district
  WHERE d_next_o_id - 1 <> (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id);
-- a district's undelivered orders have no gaps
SELECT count(*) FROM (
  SELECT 1 FROM new_orders GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) gaps;
-- an order has as many lines as it says
SELECT count(*) FROM orders
  WHERE o_ol_cnt <> (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id);
-- an order has a carrier if it is delivered
SELECT count(*) FROM orders LEFT JOIN new_orders ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
  WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL);
-- a line has a date of delivery if its order has a carrier
SELECT count(*) FROM order_line JOIN orders ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
  WHERE (o_carrier_id IS NULL) <> (ol_delivery_d IS NULL);
