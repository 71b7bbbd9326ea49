-- name: customer
-- :id from select id from customers order by md5(id::text) limit 1000
SELECT * FROM customers WHERE id = :id;

-- name: orders_by_customer
-- :id from select id from customers order by md5(id::text) limit 1000
SELECT id, placed, state FROM orders WHERE customer_id = :id ORDER BY placed DESC;

-- name: lines_by_order
-- :id from select id from orders order by md5(id::text) limit 1000
SELECT l.line, p.kind, p.price * l.amount AS cost FROM order_lines l JOIN products p ON p.id = l.product_id
WHERE l.order_id = :id ORDER BY l.line;

-- name: open_orders
SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.state = 'open' ORDER BY o.id LIMIT 20;

-- name: sales_by_kind
SELECT p.kind, sum(l.amount * p.price) FROM order_lines l JOIN products p ON p.id = l.product_id GROUP BY p.kind;

-- name: sales_by_region
SELECT r.name, count(*) FROM regions r JOIN customers c ON c.region_id = r.id JOIN orders o ON o.customer_id = c.id
GROUP BY r.name ORDER BY r.name;

-- name: unpaid
SELECT count(*) FROM orders o LEFT JOIN payments p ON p.order_id = o.id WHERE p.id IS NULL;

-- name: paid_by_product
-- :product uniform 1 500
SELECT sum(p.paid) FROM order_lines l JOIN payments p ON p.order_id = l.order_id WHERE l.product_id = :product;

-- name: last_visits
-- :id from select id from customers order by md5(id::text) limit 1000
SELECT page, at FROM visits WHERE customer_id = :id ORDER BY at DESC LIMIT 10;

-- name: pages
SELECT page, count(*) FROM visits GROUP BY page ORDER BY 2 DESC, 1 LIMIT 10;

-- name: suppliers_of_customer
-- :id from select id from customers order by md5(id::text) limit 1000
SELECT DISTINCT s.name FROM orders o JOIN order_lines l ON l.order_id = o.id JOIN products p ON p.id = l.product_id
JOIN suppliers s ON s.id = p.supplier_id WHERE o.customer_id = :id;

-- name: born_between
-- :day, :until from select born, born + 30 from customers order by md5(id::text) limit 100
SELECT count(*) FROM customers WHERE born BETWEEN :day AND :until;

-- name: best_customers
SELECT o.customer_id, sum(p.paid) FROM payments p JOIN orders o ON o.id = p.order_id GROUP BY o.customer_id
ORDER BY 2 DESC, 1 LIMIT 10;

-- name: close_order
-- writes: rollback
-- :id from select id from orders where state = 'open' order by md5(id::text) limit 100
UPDATE orders SET state = 'done' WHERE id = :id;

-- name: visit
-- writes: clone
-- :id from select id from customers order by md5(id::text) limit 1000
INSERT INTO visits VALUES (:id, now(), 'page 1');
