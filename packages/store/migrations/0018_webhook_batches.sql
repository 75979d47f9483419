-- A delivery costs PostgreSQL half of what it did: a batch is a row only while it waits, and an attempt is written under one key and checked
-- against no other table. See docs/decisions/0021.

-- What has ended is in the log of attempts, and nobody has read the batch itself since. What waits is copied: it is the smaller part.
CREATE TEMPORARY TABLE waiting ON COMMIT DROP AS SELECT * FROM webhooks.batches WHERE status = 'pending';
TRUNCATE webhooks.batches;
-- The indexes that were partial by status go with it. The body is JSON text, and as text it is read without being spelt in hexadecimal.
ALTER TABLE webhooks.batches
  DROP COLUMN status,
  ALTER COLUMN body TYPE text USING convert_from(body, 'UTF8'),
  ALTER COLUMN next_attempt_at SET NOT NULL;
INSERT INTO webhooks.batches
  (id, endpoint_id, partition, first_sequence, event_count, body, attempts, early_attempts, queued_at, scheduled_at, next_attempt_at, redelivery)
SELECT id, endpoint_id, partition, first_sequence, event_count, convert_from(body, 'UTF8'), attempts, early_attempts, queued_at, scheduled_at,
       next_attempt_at, redelivery
  FROM waiting;
CREATE INDEX batches_due ON webhooks.batches (endpoint_id, next_attempt_at, first_sequence);
CREATE INDEX batches_backlog ON webhooks.batches (endpoint_id, first_sequence);
CREATE INDEX batches_redelivery ON webhooks.batches (endpoint_id, queued_at) WHERE redelivery IS NOT NULL;

-- Whoever writes an attempt has just read its subscription, in the same transaction, so a foreign key would ask once more for each row. Whoever
-- reads attempts names the subscription.
ALTER TABLE webhooks.attempts DROP CONSTRAINT attempts_endpoint_id_fkey, DROP CONSTRAINT attempts_pkey;
DROP INDEX webhooks.attempts_endpoint;
ALTER TABLE webhooks.attempts ADD PRIMARY KEY (endpoint_id, id);
-- Where retention stands in the log was told by attempt alone.
UPDATE command.retention_jobs SET position = NULL WHERE job = 'deliveries';
