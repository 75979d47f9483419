-- Messages and delivery rate by day and template.
SELECT CAST(accepted_at AS DATE) AS accepted_day,
       template_name,
       COUNT(*) AS messages,
       ROUND(100.0 * COUNT(*) FILTER (WHERE final_status = 'delivered') / COUNT(*), 1) AS delivered_percent
  FROM outcomes
 WHERE message_mode = 'live'
 GROUP BY CAST(accepted_at AS DATE), template_name;

-- Why messages were not delivered.
SELECT final_status, reason_code, COUNT(*) AS messages
  FROM outcomes
 WHERE final_status <> 'delivered'
 GROUP BY final_status, reason_code;

-- Seconds from acceptance to delivery by operator, on average.
SELECT operator_name,
       COUNT(*) AS messages,
       AVG(TIMESTAMPDIFF(SECOND, accepted_at, final_at)) AS average_seconds
  FROM outcomes
 WHERE final_status = 'delivered' AND operator_name IS NOT NULL
 GROUP BY operator_name;

-- Charges by account and month.
SELECT account_id,
       DATE_FORMAT(accepted_at, 'yyyy-MM') AS accepted_month,
       price_currency,
       SUM(part_count) AS parts,
       SUM(price_hundredths) / 100.0 AS charged
  FROM outcomes
 WHERE message_mode = 'live'
 GROUP BY account_id, DATE_FORMAT(accepted_at, 'yyyy-MM'), price_currency;
