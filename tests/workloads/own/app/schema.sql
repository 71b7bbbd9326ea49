-- A small shop of eight tables.
CREATE TABLE scale AS SELECT 1 AS n;
CREATE TABLE regions (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE customers (id int PRIMARY KEY, region_id int NOT NULL REFERENCES regions, name text NOT NULL, born date);
CREATE TABLE suppliers (id int PRIMARY KEY, region_id int NOT NULL REFERENCES regions, name text NOT NULL);
CREATE TABLE products (id int PRIMARY KEY, supplier_id int NOT NULL REFERENCES suppliers, kind text, price numeric(10,2));
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customers, placed date, state text);
CREATE TABLE order_lines (order_id int NOT NULL REFERENCES orders, line int, product_id int NOT NULL REFERENCES products,
    amount int, PRIMARY KEY (order_id, line));
CREATE TABLE payments (id int PRIMARY KEY, order_id int NOT NULL REFERENCES orders, paid numeric(12,2), at timestamptz);
CREATE TABLE visits (customer_id int NOT NULL REFERENCES customers, at timestamptz, page text);
