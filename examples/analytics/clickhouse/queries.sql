-- FINAL leaves out the records that a later one has replaced.

-- Messages and delivery rate by day and template.
SELECT toDate(accepted_at) AS accepted_day,
       template_name,
       count() AS messages,
       round(100 * countIf(final_status = 'delivered') / count(), 1) AS delivered_percent
  FROM outcomes FINAL
 WHERE message_mode = 'live'
 GROUP BY accepted_day, template_name
 ORDER BY accepted_day, messages DESC;

-- Why messages were not delivered.
SELECT final_status, reason_code, count() AS messages
  FROM outcomes FINAL
 WHERE final_status != 'delivered'
 GROUP BY final_status, reason_code
 ORDER BY messages DESC;

-- Seconds from acceptance to delivery by operator: median and 95th percentile.
SELECT operator_name,
       count() AS messages,
       quantile(0.5)(dateDiff('millisecond', accepted_at, final_at)) / 1000 AS median_seconds,
       quantile(0.95)(dateDiff('millisecond', accepted_at, final_at)) / 1000 AS slowest_seconds
  FROM outcomes FINAL
 WHERE final_status = 'delivered' AND operator_name IS NOT NULL
 GROUP BY operator_name
 ORDER BY messages DESC;

-- Charges by account and month.
SELECT account_id,
       toStartOfMonth(accepted_at) AS accepted_month,
       price_currency,
       sum(part_count) AS parts,
       sum(price_hundredths) / 100 AS charged
  FROM outcomes FINAL
 WHERE message_mode = 'live'
 GROUP BY account_id, accepted_month, price_currency
 ORDER BY charged DESC;
