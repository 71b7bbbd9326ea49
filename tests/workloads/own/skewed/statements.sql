-- Forty statements of joins over the twelve tables of data.sql.

-- name: sales_people
-- :kind from select distinct kind from people order by 1
SELECT count(*) FROM sales s JOIN people p ON p.id = s.person_id
WHERE p.kind = :kind;

-- name: sales_people_grouped
SELECT p.age, count(*) FROM sales s JOIN people p ON p.id = s.person_id
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10;

-- name: sales_people_first
-- :kind from select distinct kind from people order by 1
SELECT * FROM sales s JOIN people p ON p.id = s.person_id
WHERE p.kind = :kind ORDER BY 1 LIMIT 5;

-- name: sales_people_exists
SELECT count(*) FROM sales s JOIN people p ON p.id = s.person_id
WHERE EXISTS (SELECT FROM reviews x WHERE x.stars = 5 AND x.person_id = p.id);

-- name: sales_lines
-- :day from select sold from sales order by md5(id::text) limit 100
SELECT count(*) FROM sales s JOIN sale_lines l ON l.sale_id = s.id
WHERE s.sold < :day;

-- name: sales_lines_grouped
SELECT s.store_id, count(*) FROM sales s JOIN sale_lines l ON l.sale_id = s.id
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10;

-- name: sales_lines_first
-- :day from select sold from sales order by md5(id::text) limit 100
SELECT * FROM sales s JOIN sale_lines l ON l.sale_id = s.id
WHERE s.sold < :day ORDER BY 1 LIMIT 5;

-- name: sales_lines_exists
SELECT count(*) FROM sales s JOIN sale_lines l ON l.sale_id = s.id
WHERE EXISTS (SELECT FROM reviews x WHERE x.stars = 5 AND x.item_id = l.item_id);

-- name: lines_items
-- :price uniform 1 500
SELECT count(*) FROM sale_lines l JOIN items i ON i.id = l.item_id
WHERE i.price > :price;

-- name: lines_items_grouped
SELECT i.category_id, count(*) FROM sale_lines l JOIN items i ON i.id = l.item_id
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10;

-- name: lines_items_first
-- :price uniform 1 500
SELECT * FROM sale_lines l JOIN items i ON i.id = l.item_id
WHERE i.price > :price ORDER BY 1 LIMIT 5;

-- name: lines_items_exists
SELECT count(*) FROM sale_lines l JOIN items i ON i.id = l.item_id
WHERE EXISTS (SELECT FROM reviews x WHERE x.stars = 5 AND x.item_id = i.id);

-- name: items_makers
-- :zone uniform 0 4
SELECT count(*) FROM items i JOIN makers m ON m.id = i.maker_id JOIN countries c ON c.id = m.country_id
WHERE c.zone = :zone;

-- name: items_makers_grouped
SELECT c.name, count(*) FROM items i JOIN makers m ON m.id = i.maker_id JOIN countries c ON c.id = m.country_id
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10;

-- name: items_makers_first
-- :zone uniform 0 4
SELECT * FROM items i JOIN makers m ON m.id = i.maker_id JOIN countries c ON c.id = m.country_id
WHERE c.zone = :zone ORDER BY 1 LIMIT 5;

-- name: items_makers_exists
SELECT count(*) FROM items i JOIN makers m ON m.id = i.maker_id JOIN countries c ON c.id = m.country_id
WHERE EXISTS (SELECT FROM reviews x WHERE x.stars = 5 AND x.item_id = i.id);

-- name: people_cities
-- :country uniform 1 30
SELECT count(*) FROM people p JOIN cities t ON t.id = p.city_id JOIN countries c ON c.id = t.country_id
WHERE c.id = :country;

-- name: people_cities_grouped
SELECT c.name, count(*) FROM people p JOIN cities t ON t.id = p.city_id JOIN countries c ON c.id = t.country_id
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10;

-- name: people_cities_first
-- :country uniform 1 30
SELECT * FROM people p JOIN cities t ON t.id = p.city_id JOIN countries c ON c.id = t.country_id
WHERE c.id = :country ORDER BY 1 LIMIT 5;

-- name: people_cities_exists
SELECT count(*) FROM people p JOIN cities t ON t.id = p.city_id JOIN countries c ON c.id = t.country_id
WHERE EXISTS (SELECT FROM reviews x WHERE x.stars = 5 AND x.person_id = p.id);

-- name: stores_cities
-- :size uniform 1 100
SELECT count(*) FROM stores o JOIN cities t ON t.id = o.city_id JOIN countries c ON c.id = t.country_id
WHERE o.size > :size;

-- name: stores_cities_grouped
SELECT c.name, count(*) FROM stores o JOIN cities t ON t.id = o.city_id JOIN countries c ON c.id = t.country_id
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10;

-- name: stores_cities_first
-- :size uniform 1 100
SELECT * FROM stores o JOIN cities t ON t.id = o.city_id JOIN countries c ON c.id = t.country_id
WHERE o.size > :size ORDER BY 1 LIMIT 5;

-- name: stores_cities_exists
SELECT count(*) FROM stores o JOIN cities t ON t.id = o.city_id JOIN countries c ON c.id = t.country_id
WHERE EXISTS (SELECT FROM reviews x WHERE x.stars = 5 AND x.person_id = o.id);

-- name: reviews_items
-- :category uniform 1 40
SELECT count(*) FROM reviews r JOIN items i ON i.id = r.item_id JOIN categories g ON g.id = i.category_id
WHERE g.id = :category;

-- name: reviews_items_grouped
SELECT g.name, count(*) FROM reviews r JOIN items i ON i.id = r.item_id JOIN categories g ON g.id = i.category_id
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10;

-- name: reviews_items_first
-- :category uniform 1 40
SELECT * FROM reviews r JOIN items i ON i.id = r.item_id JOIN categories g ON g.id = i.category_id
WHERE g.id = :category ORDER BY 1 LIMIT 5;

-- name: reviews_items_exists
SELECT count(*) FROM reviews r JOIN items i ON i.id = r.item_id JOIN categories g ON g.id = i.category_id
WHERE EXISTS (SELECT FROM reviews x WHERE x.stars = 5 AND x.item_id = r.item_id);

-- name: returns_sales
-- :reason of 'reason 1', 'reason 3', 'reason 6'
SELECT count(*) FROM returns u JOIN sales s ON s.id = u.sale_id JOIN people p ON p.id = s.person_id
WHERE u.reason = :reason;

-- name: returns_sales_grouped
SELECT p.kind, count(*) FROM returns u JOIN sales s ON s.id = u.sale_id JOIN people p ON p.id = s.person_id
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10;

-- name: returns_sales_first
-- :reason of 'reason 1', 'reason 3', 'reason 6'
SELECT * FROM returns u JOIN sales s ON s.id = u.sale_id JOIN people p ON p.id = s.person_id
WHERE u.reason = :reason ORDER BY 1 LIMIT 5;

-- name: returns_sales_exists
SELECT count(*) FROM returns u JOIN sales s ON s.id = u.sale_id JOIN people p ON p.id = s.person_id
WHERE EXISTS (SELECT FROM reviews x WHERE x.stars = 5 AND x.person_id = p.id);

-- name: stock_items
-- :amount uniform 1 50
SELECT count(*) FROM stock k JOIN items i ON i.id = k.item_id JOIN stores o ON o.id = k.store_id
WHERE k.amount > :amount;

-- name: stock_items_grouped
SELECT o.id, count(*) FROM stock k JOIN items i ON i.id = k.item_id JOIN stores o ON o.id = k.store_id
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10;

-- name: stock_items_first
-- :amount uniform 1 50
SELECT * FROM stock k JOIN items i ON i.id = k.item_id JOIN stores o ON o.id = k.store_id
WHERE k.amount > :amount ORDER BY 1 LIMIT 5;

-- name: stock_items_exists
SELECT count(*) FROM stock k JOIN items i ON i.id = k.item_id JOIN stores o ON o.id = k.store_id
WHERE EXISTS (SELECT FROM reviews x WHERE x.stars = 5 AND x.item_id = i.id);

-- name: star
-- :country uniform 1 30
-- :category uniform 1 40
SELECT count(*) FROM sale_lines l JOIN sales s ON s.id = l.sale_id JOIN people p ON p.id = s.person_id JOIN cities t ON t.id = p.city_id
  JOIN countries c ON c.id = t.country_id JOIN items i ON i.id = l.item_id JOIN makers m ON m.id = i.maker_id
  JOIN categories g ON g.id = i.category_id JOIN stores o ON o.id = s.store_id
WHERE c.id = :country AND g.id = :category;

-- name: star_grouped
SELECT m.name, count(*) FROM sale_lines l JOIN sales s ON s.id = l.sale_id JOIN people p ON p.id = s.person_id JOIN cities t ON t.id = p.city_id
  JOIN countries c ON c.id = t.country_id JOIN items i ON i.id = l.item_id JOIN makers m ON m.id = i.maker_id
  JOIN categories g ON g.id = i.category_id JOIN stores o ON o.id = s.store_id
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10;

-- name: star_first
-- :country uniform 1 30
-- :category uniform 1 40
SELECT * FROM sale_lines l JOIN sales s ON s.id = l.sale_id JOIN people p ON p.id = s.person_id JOIN cities t ON t.id = p.city_id
  JOIN countries c ON c.id = t.country_id JOIN items i ON i.id = l.item_id JOIN makers m ON m.id = i.maker_id
  JOIN categories g ON g.id = i.category_id JOIN stores o ON o.id = s.store_id
WHERE c.id = :country AND g.id = :category ORDER BY 1 LIMIT 5;

-- name: star_exists
SELECT count(*) FROM sale_lines l JOIN sales s ON s.id = l.sale_id JOIN people p ON p.id = s.person_id JOIN cities t ON t.id = p.city_id
  JOIN countries c ON c.id = t.country_id JOIN items i ON i.id = l.item_id JOIN makers m ON m.id = i.maker_id
  JOIN categories g ON g.id = i.category_id JOIN stores o ON o.id = s.store_id
WHERE EXISTS (SELECT FROM reviews x WHERE x.stars = 5 AND x.item_id = i.id);
