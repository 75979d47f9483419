-- Messages and delivery rate by day and template.
SELECT date_trunc('day', accepted_at) AS accepted_day,
       template_name,
       count(*) AS messages,
       round(100.0 * count(*) FILTER (WHERE final_status = 'delivered') / count(*), 1) AS delivered_percent
  FROM outcomes
 WHERE message_mode = 'live'
 GROUP BY ALL
 ORDER BY accepted_day, messages DESC;

-- Why messages were not delivered.
SELECT final_status, reason_code, count(*) AS messages
  FROM outcomes
 WHERE final_status <> 'delivered'
 GROUP BY ALL
 ORDER BY messages DESC;

-- Seconds from acceptance to delivery by operator: median and 95th percentile.
SELECT operator_name,
       count(*) AS messages,
       quantile_cont(epoch_ms(final_at) - epoch_ms(accepted_at), 0.5) / 1000 AS median_seconds,
       quantile_cont(epoch_ms(final_at) - epoch_ms(accepted_at), 0.95) / 1000 AS slowest_seconds
  FROM outcomes
 WHERE final_status = 'delivered' AND operator_name IS NOT NULL
 GROUP BY ALL
 ORDER BY messages DESC;

-- Charges by account and month.
SELECT account_id,
       date_trunc('month', accepted_at) AS accepted_month,
       price_currency,
       sum(part_count) AS parts,
       sum(price_hundredths) / 100 AS charged
  FROM outcomes
 WHERE message_mode = 'live'
 GROUP BY ALL
 ORDER BY charged DESC;
