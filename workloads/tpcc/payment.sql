-- A customer pays: warehouse, district and customer have new sums, and history a row.
\set w random(1, :scale)
\set d random(1, 10)
\set c random(1, 300)
\set amount random(1, 5000)
BEGIN;
UPDATE warehouse SET w_ytd = w_ytd + :amount WHERE w_id = :w;
UPDATE district SET d_ytd = d_ytd + :amount WHERE d_w_id = :w AND d_id = :d;
UPDATE customer SET c_balance = c_balance - :amount, c_ytd_payment = c_ytd_payment + :amount,
    c_payment_cnt = c_payment_cnt + 1
  WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
INSERT INTO history (h_c_w_id, h_c_d_id, h_c_id, h_date, h_amount) VALUES (:w, :d, :c, now(), :amount);
COMMIT;
